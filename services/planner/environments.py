"""A tenant's environments as its deployments see them, and the recipes of their cluster secrets."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from services.common.api import ManagedEnvironmentSpec
from services.planner.draft import Draft
from services.planner.engines import argocd_secrets
from services.planner.engines.argocd import Destination
from services.planner.engines.argocd_secrets import CLUSTER_SECRET, cluster_name
from services.planner.kinds import managed_environment
from services.planner.kinds.conditions import Refused
from services.planner.kinds.managed_environment import EnvironmentView
from services.planner.kinds.names import MANAGED_ENVIRONMENT
from services.planner.rows import Resource
from services.planner.secrets import secret_of


def wanted_environments(draft: Draft, tenant_id: UUID) -> Iterator[tuple[Resource, ManagedEnvironmentSpec | Refused]]:
    """Environments that shall exist, each with its spec or with what is wrong with that."""
    for environment in draft.of_kind(tenant_id, MANAGED_ENVIRONMENT):
        if environment.wanted:
            yield environment, accepted(draft, environment)


def accepted(draft: Draft, environment: Resource) -> ManagedEnvironmentSpec | Refused:
    """The spec, or what is wrong with it."""
    try:
        return managed_environment.accept(environment, draft.rules.addresses, draft.rules.limits)
    except Refused as refused:
        return refused


def environment_views(draft: Draft, tenant_id: UUID) -> dict[str, EnvironmentView]:
    """By name, what deployments must know of the tenant's environments."""
    return {
        environment.name: _view(draft, environment, spec) for environment, spec in wanted_environments(draft, tenant_id)
    }


def _view(draft: Draft, environment: Resource, spec: ManagedEnvironmentSpec | Refused) -> EnvironmentView:
    held = draft.holding(environment.tenant_id, CLUSTER_SECRET, cluster_name(environment.id))
    digest = held.digest if held is not None and held.wanted else None
    refused = spec if isinstance(spec, Refused) else _refused(draft, environment, digest)
    return EnvironmentView(
        id=str(environment.id),
        name=environment.name,
        usability=managed_environment.is_usable(refused, draft.checks.get(environment.id), digest),
        namespaces=() if isinstance(spec, Refused) else tuple(spec.namespaces or ()),
        cluster_resources=not isinstance(spec, Refused) and spec.cluster_resources,
    )


def _refused(draft: Draft, environment: Resource, digest: str | None) -> Refused | None:
    """Why there is no cluster secret for an environment with a good spec; None if there is, or will be in a moment.

    Of a tenant whose resources are not concerned the Secrets are not at hand; but then one that is there was compiled.
    """
    if digest is not None or environment.tenant_id in draft.unsettled:
        return draft.refused.get(environment.id)
    try:
        managed_environment.sealed(environment, None, draft.rules.limits)
    except Refused as refused:
        return refused
    return None


def environment_names(draft: Draft, tenant_id: UUID) -> dict[str, str]:
    """The tenant's environments by Argo CD's name of their cluster."""
    return {cluster_name(known.id): known.name for known in draft.of_kind(tenant_id, MANAGED_ENVIRONMENT)}


def cluster_secret(draft: Draft, environment: Resource, spec: ManagedEnvironmentSpec) -> str:
    """The recipe of its cluster secret. Raises Refused if the Secret with its credentials is not to be had."""
    secret = managed_environment.sealed(environment, secret_of(draft, environment), draft.rules.limits)
    return argocd_secrets.cluster_secret(
        draft.home(environment.tenant_id), environment.id, environment.uid, spec, secret
    )


def destinations(draft: Draft, tenant_id: UUID, *, cluster_resources: bool) -> list[Destination]:
    """Where the tenant's Applications may go besides its own namespace; in a stable order, to be compared.

    An environment that is gone counts until its cluster secret is: what is being deleted there needs the right to be.
    """
    found = []
    for environment in draft.of_kind(tenant_id, MANAGED_ENVIRONMENT):
        name = cluster_name(environment.id)
        if environment.wanted or draft.holding(tenant_id, CLUSTER_SECRET, name) is not None:
            spec = accepted(draft, environment)
            if not isinstance(spec, Refused) and spec.cluster_resources == cluster_resources:
                found.append(Destination(name, tuple(sorted(set(spec.namespaces or ())))))
    return sorted(found, key=lambda destination: destination.cluster)
