"""A tenant's environments as its deployments see them, and the destinations that they allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from uuid import UUID

from services.common.text_cache import TEXTS
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT, ManagedEnvironmentSpec
from services.kinds.managed_environment.rules import EnvironmentView, is_usable
from services.kinds.managed_environment.validation import accepted_environment
from services.kinds.registry import Registry
from services.kinds.shared.connections import Cluster, ConnectionInputs
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import ConnectionsOf
from services.kinds.shared.resource import Check, PlainResource
from services.planner.domain.indexed_rows import differing
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Destination


class Environments:
    """What deployments read of environments. A spec gives a name; a resolved deployment is bound to an id.

    An environment is read when it is asked for: a tenant may have many, and most deployments name one.
    """

    def __init__(self, state: TenantState) -> None:
        self._state = state
        self._rows = state.plain_resources_of_kind(MANAGED_ENVIRONMENT.kind)
        self._views: dict[UUID, EnvironmentView] = {}

    @cached_property
    def _ids(self) -> Mapping[str, UUID]:
        return {
            each.name: each.id
            for each in self._state.plain_resources_in_order(MANAGED_ENVIRONMENT.kind)
            if each.is_active
        }

    def named(self, name: str) -> EnvironmentView | None:
        """The environment of this name that exists."""
        found = self._ids.get(name)
        return None if found is None else self._view(self._rows[found])

    def with_id(self, environment: UUID) -> EnvironmentView | None:
        """The environment with this id. It exists, or is gone but still on its engine.

        A deployment that is being removed still needs its cluster.
        """
        row = self._rows.get(environment)
        if row is None:
            return None
        return self._view(row) if row.is_active or self._state.objects_of(environment) else None

    def _view(self, environment: PlainResource) -> EnvironmentView:
        if environment.id not in self._views:
            self._views[environment.id] = _view(self._state, environment)
        return self._views[environment.id]


def changed_clusters(now: TenantState, before: TenantState, kinds: Registry) -> frozenset[UUID]:
    """Ids of resources that list clusters and differ in something that others depend on."""
    found = {*differing(now.plain_resources, before.plain_resources), *differing(now.checks, before.checks)}
    found |= owners_differing(now, before)
    listing = (
        each
        for each in found
        if _lists_clusters(now.plain_resources.get(each) or before.plain_resources.get(each), kinds)
    )
    return frozenset(each for each in listing if _parts(now, each) != _parts(before, each))


def _lists_clusters(known: PlainResource | None, kinds: Registry) -> bool:
    return known is not None and kinds[known.kind].destinations is not None


def owners_differing(now: TenantState, before: TenantState) -> set[UUID]:
    """Owners of objects that differ from before."""
    rows = ((now.objects.get(key), before.objects.get(key)) for key in differing(now.objects, before.objects))
    return {stored.owner.id for pair in rows for stored in pair if stored is not None}


def _parts(state: TenantState, known: UUID) -> object:
    return state.plain_resources.get(known), state.checks.get(known), state.objects_of(known)


def clusters_in_force(known: PlainResource, check: Check | None, kinds: Registry) -> tuple[Cluster, ...]:
    """The clusters that an engine may have for a resource: by the accepted spec, and by the one that last worked."""
    return _clusters(kinds[known.kind].connections, known.accepted, check.working_spec if check is not None else "")


@TEXTS.remember
def _clusters(connections: ConnectionsOf | None, *specs: str) -> tuple[Cluster, ...]:
    wanted = [
        connection
        for text in dict.fromkeys(specs)
        if text and connections
        for connection in connections(ConnectionInputs(text))
    ]
    return tuple(connection for connection in wanted if isinstance(connection, Cluster))


def destinations(state: TenantState, kinds: Registry) -> tuple[Destination, ...]:
    """Where the tenant's deployments may go besides its own namespace.

    A cluster counts by the spec that its object was compiled from, and by the one with which its credentials last
    worked, as long as an engine may still have that. A deleted cluster counts until its object is gone: deployments
    that are being removed there need the right to be.
    """
    return tuple(
        Destination(owner, _namespaces(chosen), privileged)
        for owner, clusters in _clusters_by_owner(state, kinds)
        for privileged in (False, True)
        if (chosen := [cluster for cluster in clusters if cluster.cluster_resources == privileged])
    )


def allows_cluster_resources(state: TenantState, kinds: Registry) -> bool:
    """Whether any destination allows resources outside of namespaces."""
    return any(cluster.cluster_resources for _, clusters in _clusters_by_owner(state, kinds) for cluster in clusters)


def _clusters_by_owner(state: TenantState, kinds: Registry) -> Iterator[tuple[UUID, tuple[Cluster, ...]]]:
    stored, checks = state.objects_by_owner(), state.checks
    known = (each for kind in kinds.listing for each in state.plain_resources_in_order(kind.name))
    return ((each.id, clusters_in_force(each, checks.get(each.id), kinds)) for each in known if each.id in stored)


def _view(state: TenantState, environment: PlainResource) -> EnvironmentView:
    check = state.checks.get(environment.id)
    worked, compiled = _parsed(check.working_spec if check else ""), _parsed(environment.accepted)
    same = worked is not None and compiled is not None and worked.api_url == compiled.api_url
    digest = state.checked_digest(environment.id)
    force = worked or compiled
    return EnvironmentView(
        id=str(environment.id),
        name=environment.name,
        usability=is_usable(refusal_of(environment), check, digest, holds_this_cluster=same and digest is not None),
        namespaces=tuple(compiled.namespaces or ()) if compiled else (),
        cluster_resources=force is not None and force.cluster_resources,
    )


def _namespaces(clusters: Iterable[Cluster]) -> tuple[str, ...]:
    """All namespaces that the specs list. If one lists none, all namespaces are meant."""
    lists = [cluster.namespaces for cluster in clusters]
    return () if any(not names for names in lists) else tuple(sorted({name for names in lists for name in names}))


def _parsed(text: str) -> ManagedEnvironmentSpec | None:
    return accepted_environment(text) if text else None
