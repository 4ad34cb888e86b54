"""A tenant's repository credentials: the repositories they open, and the recipes of their repository secrets."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from services.common.api import RepositoryCredentialSpec
from services.planner.draft import Draft
from services.planner.engines import argocd_secrets
from services.planner.kinds import repository_credential
from services.planner.kinds.conditions import Refused
from services.planner.kinds.names import REPOSITORY_CREDENTIAL
from services.planner.kinds.repository_url import normalised
from services.planner.rows import Resource
from services.planner.secrets import secret_of


def accepted(draft: Draft, credential: Resource) -> RepositoryCredentialSpec | Refused:
    """The spec, or what is wrong with it."""
    try:
        return repository_credential.accept(credential, draft.rules.addresses, draft.rules.limits)
    except Refused as refused:
        return refused


def repositories(draft: Draft, tenant_id: UUID) -> Iterator[str]:
    """Repositories, normalised, that the tenant has credentials for."""
    for credential in draft.of_kind(tenant_id, REPOSITORY_CREDENTIAL):
        spec = accepted(draft, credential) if credential.wanted else None
        if isinstance(spec, RepositoryCredentialSpec):
            yield normalised(spec.repository)


def repository_secrets(
    draft: Draft, credential: Resource, spec: RepositoryCredentialSpec, *, in_cluster_project: bool
) -> dict[str, str]:
    """Recipes of its repository secrets by name. Raises Refused if the Secret with the login is not to be had."""
    secret = repository_credential.sealed(credential, secret_of(draft, credential), draft.rules.limits)
    home = draft.home(credential.tenant_id)
    return argocd_secrets.repository_secrets(
        home, credential.id, credential.uid, spec, secret, in_cluster_project=in_cluster_project
    )
