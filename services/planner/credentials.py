"""A tenant's repository credentials: the repositories they open, and the recipes of their repository secrets."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from services.common.api import RepositoryCredentialSpec
from services.common.urls.repository_url import normalised
from services.planner.draft import Draft
from services.planner.engines import argocd_secrets
from services.planner.kinds import repository_credential
from services.planner.kinds.names import REPOSITORY_CREDENTIAL
from services.planner.kinds.written_spec import accepted_credential
from services.planner.rows import Resource
from services.planner.secrets import secret_of


def accepted(draft: Draft, credential: Resource) -> RepositoryCredentialSpec:
    """The spec as it is written now. Raises Refused."""
    return repository_credential.accept(credential, draft.rules.addresses, draft.rules.limits)


def repositories(draft: Draft, tenant_id: UUID) -> Iterator[str]:
    """Repositories, normalised, that the tenant has credentials for."""
    for credential in draft.of_kind(tenant_id, REPOSITORY_CREDENTIAL):
        if credential.wanted and credential.accepted:
            yield normalised(accepted_credential(credential.accepted).repository)


def repository_secrets(
    draft: Draft, credential: Resource, spec: RepositoryCredentialSpec, *, in_cluster_project: bool
) -> dict[str, str]:
    """Recipes of its repository secrets by name. Raises Refused if the Secret with the login is not to be had."""
    secret = repository_credential.sealed(credential, secret_of(draft, credential), draft.rules.limits)
    home = draft.home(credential.tenant_id)
    return argocd_secrets.repository_secrets(
        home, credential.id, credential.uid, spec, secret, in_cluster_project=in_cluster_project
    )
