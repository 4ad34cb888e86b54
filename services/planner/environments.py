"""A tenant's environments as its deployments see them, and the recipes of their cluster secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from uuid import UUID

from services.common.api import ManagedEnvironmentSpec
from services.common.messages.compiled import RowKind
from services.planner.draft import Draft
from services.planner.engines import argocd_secrets
from services.planner.engines.argocd import Destination
from services.planner.engines.argocd_secrets import cluster_name
from services.planner.kinds import managed_environment
from services.planner.kinds.managed_environment import EnvironmentView, Usability
from services.planner.kinds.names import MANAGED_ENVIRONMENT
from services.planner.kinds.resources import refusal_of
from services.planner.kinds.written_spec import accepted_environment
from services.planner.rows import Check, Holding, HoldingKey, Resource
from services.planner.secrets import secret_of


def accepted(draft: Draft, environment: Resource) -> ManagedEnvironmentSpec:
    """The spec as it is written now. Raises Refused."""
    return managed_environment.accept(environment, draft.rules.addresses, draft.rules.limits)


def environment_views(draft: Draft, tenant_id: UUID) -> Mapping[str, EnvironmentView]:
    """By name, what deployments must know of the tenant's environments."""
    if tenant_id not in draft.views:
        known = draft.of_kind(tenant_id, MANAGED_ENVIRONMENT)
        draft.views[tenant_id] = views_of(known, draft.held(tenant_id), draft.checks)
    return draft.views[tenant_id]


def views_of(
    known: Iterable[Resource], held: Mapping[HoldingKey, Holding], checks: Mapping[UUID, Check]
) -> dict[str, EnvironmentView]:
    """The views that follow from these rows.

    Of an environment that is gone there is one for as long as its cluster secret is there, unless another has its name:
    what was deployed there may be on its way out too, and needs its cluster for that.
    """
    secrets = [(each, held.get((RowKind.CLUSTER_SECRET, cluster_name(each.id)))) for each in known]
    leaving = {each.name: _leaving(each, checks) for each, secret in secrets if not each.wanted and secret is not None}
    return leaving | {each.name: _view(each, secret, checks) for each, secret in secrets if each.wanted}


def forget_if_withdrawn(draft: Draft, environment: Resource) -> None:
    """Its cluster secret is wanted. If it was not before, no engine holds what once worked, whatever was found out."""
    before = draft.state.holdings.get(environment.tenant_id, {})
    secret = before.get((RowKind.CLUSTER_SECRET, cluster_name(environment.id)))
    check = draft.checks.get(environment.id)
    if check is not None and (secret is None or not secret.wanted):
        draft.checks[environment.id] = replace(check, worked="")


def _leaving(environment: Resource, checks: Mapping[UUID, Check]) -> EnvironmentView:
    return replace(_view(environment, None, checks), usability=Usability.UNUSABLE)


def _view(environment: Resource, held: Holding | None, checks: Mapping[UUID, Check]) -> EnvironmentView:
    check = checks.get(environment.id)
    worked, compiled = _parsed(check.worked if check else ""), _parsed(environment.accepted)
    same = worked is not None and compiled is not None and worked.api_url == compiled.api_url
    digest = held.digest if held is not None and held.wanted else None
    in_force = worked or compiled
    return EnvironmentView(
        id=str(environment.id),
        name=environment.name,
        usability=managed_environment.is_usable(
            refusal_of(environment), check, digest, holds_this_cluster=same and digest is not None
        ),
        namespaces=tuple(compiled.namespaces or ()) if compiled else (),
        cluster_resources=in_force is not None and in_force.cluster_resources,
    )


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

    An environment counts as it is held: by the spec that its recipe was compiled from, and by the one with which its
    credentials last worked, as long as an engine may still have that. One that is gone counts until its cluster secret
    is: what is being deleted there needs the right to be.
    """
    found = []
    for environment in draft.of_kind(tenant_id, MANAGED_ENVIRONMENT):
        name = cluster_name(environment.id)
        if draft.holding(tenant_id, RowKind.CLUSTER_SECRET, name) is not None:
            specs = [spec for spec in in_force(draft, environment) if spec.cluster_resources == cluster_resources]
            if specs:
                found.append(Destination(name, _namespaces(specs)))
    return sorted(found, key=lambda destination: destination.cluster)


def in_force(draft: Draft, environment: Resource) -> Iterator[ManagedEnvironmentSpec]:
    """The specs by which an engine may hold it."""
    check = draft.checks.get(environment.id)
    for text in {environment.accepted, check.worked if check else ""}:
        spec = _parsed(text)
        if spec is not None:
            yield spec


def _namespaces(specs: Iterable[ManagedEnvironmentSpec]) -> tuple[str, ...]:
    """All that any of them lists; a spec that lists none means all."""
    lists = [spec.namespaces or () for spec in specs]
    return () if any(not names for names in lists) else tuple(sorted({name for names in lists for name in names}))


def _parsed(text: str) -> ManagedEnvironmentSpec | None:
    return accepted_environment(text) if text else None
