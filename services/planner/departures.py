"""What an agent is told of a secret of Argo CD that has to go. Called by ``tenant_objects``.

The tenant's own Secret only if an agent needs it: to remove, with the identity in it, a service account that it made.
"""

from __future__ import annotations

from uuid import UUID

from services.planner.draft import Draft
from services.planner.engines import argocd_secrets
from services.planner.engines.argocd_secrets import id_of
from services.planner.environments import in_force
from services.planner.kinds.names import MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL
from services.planner.kinds.written_spec import accepted_credential, accepted_environment
from services.planner.rows import Resource


def departing_recipe(draft: Draft, tenant_id: UUID, name: str) -> str | None:
    """Canonical JSON of the recipe of the secret ``name``, without the Secret; None if it has to stay whole."""
    known = draft.resources.get(id_of(name) or UUID(int=0))
    if known is None or known.tenant_id != tenant_id or not known.accepted:
        return None
    if known.kind == MANAGED_ENVIRONMENT:
        return _of_environment(draft, known)
    return _of_credential(draft, known, name) if known.kind == REPOSITORY_CREDENTIAL else None


def _of_environment(draft: Draft, environment: Resource) -> str | None:
    if any(each.create_new_service_account for each in in_force(draft, environment)):
        return None
    spec = accepted_environment(environment.accepted)
    home = draft.home(environment.tenant_id)
    return argocd_secrets.cluster_secret(home, environment.id, environment.uid, spec, None)


def _of_credential(draft: Draft, credential: Resource, name: str) -> str | None:
    spec = accepted_credential(credential.accepted)
    home = draft.home(credential.tenant_id)
    recipes = argocd_secrets.repository_secrets(
        home, credential.id, credential.uid, spec, None, in_cluster_project=True
    )
    return recipes.get(name)
