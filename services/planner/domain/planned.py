"""A tenant as planned so far, a value that each step of a plan takes and replaces; and what steps have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.rows import Cause, Resource
from services.planner.domain.fleet import FleetView
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Engine, Manifest, Placement
from services.planner.rows import EngineObject, ObjectKey, OperationMoved, Owner


@dataclass(frozen=True, slots=True)
class Context:
    """What every step may read: the tenant before the batch, the fleet and the rules."""

    before: TenantState
    """The tenant itself as it is now: placed."""
    fleet: FleetView
    policy: Policy

    @property
    def engine(self) -> Engine:
        """The tenant's engine."""
        return self.fleet.engine(self.before.tenant)

    @property
    def placement(self) -> Placement:
        """Where the tenant's objects are."""
        return self.fleet.placement(self.before.tenant)

    @property
    def basis(self) -> object:
        """What a plan is made from besides the tenant's rows and the events."""
        return (self.policy, self.placement.instance, self.is_local)

    @property
    def is_known(self) -> bool:
        """Whether the tenant as it was follows from the same basis: what has not changed then needs no look."""
        return self.before.basis == self.basis

    def is_platform(self, namespace: str) -> bool:
        """Whether a namespace of an engine's own cluster belongs to the platform."""
        return self.policy.protects(namespace) or self.fleet.is_engine_namespace(namespace)

    @property
    def is_local(self) -> bool:
        """Whether the tenant's namespace is one of the engine's own cluster, and its own there."""
        tenant = self.before.tenant
        return tenant.workspace in self.policy.local_workspaces and not self.is_platform(tenant.namespace)


class Planned(NamedTuple):
    """See the module."""

    state: TenantState
    cause: Cause | None = None
    """Newest event that requires more than new statuses; None: there was none."""
    touched: Mapping[UUID, Cause] = MappingProxyType({})
    """Last event that concerned a deployment or a resource, in the order of the events."""
    actors: Mapping[UUID, str] = MappingProxyType({})
    """Who changed a custom resource last, for the audit."""
    outcomes: tuple[OperationMoved, ...] = ()
    """What has become of operations, in the order in which it was found out."""
    compiled: frozenset[UUID] = frozenset()
    """Deployments whose newest spec has been looked at."""
    manifests: Mapping[ObjectKey, Manifest] = MappingProxyType({})
    """Objects as they were compiled in this plan."""
    oversized: tuple[ObjectKey, ...] = ()
    """Objects whose new manifest exceeds 1 MiB: the stored row is kept."""

    def with_state(self, state: TenantState) -> Planned:
        """The same with another state."""
        return self._replace(state=state)

    def touching(self, subject: UUID, cause: Cause) -> Planned:
        """The same after another event that concerned this deployment or resource."""
        return self._replace(touched=_last(self.touched, subject, cause))

    def with_outcome(self, outcome: OperationMoved) -> Planned:
        """Something has become of an operation."""
        return self._replace(outcomes=(*self.outcomes, outcome))

    def put(self, row: Deployment | Resource, cause: Cause, actor: str = "") -> Planned:
        """The same with this row; the steps will compile what depends on it."""
        rows = self.state.with_deployments(row) if isinstance(row, Deployment) else self.state.with_resources(row)
        actors = {**self.actors, row.id: actor} if actor else self.actors
        return self._replace(state=rows, cause=cause, actors=actors, touched=_last(self.touched, row.id, cause))


def _last(touched: Mapping[UUID, Cause], subject: UUID, cause: Cause) -> dict[UUID, Cause]:
    moved = dict(touched)
    moved.pop(subject, None)
    moved[subject] = cause
    return moved


def want(planned: Planned, manifests: Iterable[Manifest], owner: Owner) -> Planned:
    """The same with these objects wanted for ``owner``, except those that exceed 1 MiB."""
    held = planned.state.objects
    news: dict[ObjectKey, EngineObject] = {}
    made: dict[ObjectKey, Manifest] = {}
    for manifest in manifests:
        if manifest.is_oversized:
            planned = planned._replace(oversized=(*planned.oversized, manifest.key))
        elif held.get(manifest.key) != (wanted := EngineObject(True, manifest.digest, manifest.size, owner)):
            news[manifest.key], made[manifest.key] = wanted, manifest
    if not news:
        return planned
    return planned._replace(state=planned.state.with_objects(news), manifests={**planned.manifests, **made})


def release(planned: Planned, keys: Iterable[ObjectKey], departing: Mapping[ObjectKey, Manifest]) -> Planned:
    """The same with these objects marked absent, with a replacement manifest where one is given."""
    held = {key: planned.state.objects[key] for key in keys if planned.state.objects[key].wanted}
    said = {key: departing[key] for key in held if key in departing}
    gone = {
        key: EngineObject(False, said[key].digest, said[key].size, each.owner)
        if key in said
        else replace(each, wanted=False)
        for key, each in held.items()
    }
    if not gone:
        return planned
    state = planned.state.with_objects(gone)
    return planned._replace(state=state, manifests={**planned.manifests, **said})
