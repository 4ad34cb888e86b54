"""A tenant as planned so far, what every step of a plan may read, and what steps have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.events import Event
from services.planner.domain.fleet.moves.moves import HALTED
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.rows import Move
from services.planner.domain.policy import Policy
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Engine, Manifest, Placement
from services.planner.rows.audit import AuditOutcome
from services.planner.rows.compiled import EngineObject, EngineObjectKey, Owner, WorkspaceKey, WorkspaceRow
from services.planner.rows.tenants import ResourceName


@dataclass(frozen=True, slots=True)
class Context:
    """What every step may read."""

    before: TenantState
    """The tenant's rows before the batch; but its row ``tenant`` is as it is now, with an instance."""
    fleet: PlacementView
    policy: Policy
    events: Sequence[Event]
    """What happened to the tenant, in order; at least one."""
    now: datetime
    move: Move | None = None
    """The tenant's move, at the step that this plan carries out."""
    left: Placement | None = None
    """The source of the move, if this plan hands deployments over to the target; otherwise None."""
    is_own_left: bool = False
    """Whether ``left`` was the tenant's own instance."""
    handed_over: frozenset[UUID] = frozenset()
    """Ids of the deployments that this plan hands over."""

    @property
    def last_event_cause(self) -> Cause:
        """When the last of the events happened, and its trace."""
        return self.events[-1].cause(self.now)

    @property
    def engine(self) -> Engine:
        """The tenant's engine."""
        return self.fleet.engine(self.before.tenant)

    @property
    def placement(self) -> Placement:
        """Where the tenant's objects are."""
        return self.fleet.placement(self.before.tenant)

    def placement_on(self, instance: str) -> Placement:
        """Where objects of the tenant are on ``instance``."""
        return self.fleet.placement(replace(self.before.tenant, engine_instance_id=instance))

    def placement_of(self, known: Deployment) -> Placement:
        """Where the object of a deployment is."""
        return self.placement_on(self.before.instance_of(known))

    def is_moved(self, known: Deployment) -> bool:
        """Whether the tenant's move, at the step of this plan, concerns a deployment."""
        return self.move is not None and self.before.instance_of(known) == self.move.holder

    def is_halted(self, known: Deployment) -> bool:
        """Whether the instance that has a deployment must not sync it any more."""
        return self.is_moved(known) and self.move is not None and self.move.step in HALTED

    @property
    def may_split(self) -> bool:
        """Whether the tenant may get a part on another instance: not while it moves, or a move is ordered."""
        is_moving = self.move is not None or self.before.tenant.id in self.fleet.to_move
        return self.policy.splits_tenants and not is_moving

    @property
    def basis(self) -> object:
        """What a plan is made from besides the tenant's rows and the events."""
        return (self.policy, self.placement.instance, self.is_local, self.before.tenant.namespace_uid)

    @property
    def is_known(self) -> bool:
        """Whether the tenant before the batch was planned from the same basis. Then only what differs is planned."""
        return self.before.basis == self.basis

    def is_platform_on(self, instance: str) -> bool:
        """Whether the tenant's namespace belongs to the platform in the cluster of an instance."""
        namespace, cluster = self.before.tenant.namespace, self.fleet.instances[instance].engine_cluster
        return self.policy.protects(namespace) or self.fleet.is_engine_namespace(cluster, namespace)

    @property
    def is_local(self) -> bool:
        """Whether the tenant's namespace is one of its engine's own cluster, and not the platform's."""
        return self.is_local_on(self.before.tenant.engine_instance_id)

    def is_local_on(self, instance: str) -> bool:
        """Whether the tenant's namespace is one of the cluster of ``instance``, and not the platform's."""
        tenant, cluster = self.before.tenant, self.fleet.instances[instance].engine_cluster
        return cluster in self.policy.clusters_of(tenant.workspace) and not self.is_platform_on(instance)


PlacedKey = tuple[str, EngineObjectKey]
"""The instance that has an object, and its key."""


@dataclass(frozen=True, slots=True)
class StatusChanges:
    """Rows of ``workspace_statuses`` that are written, and the keys of those that are deleted."""

    rows: tuple[WorkspaceRow, ...] = ()
    gone: tuple[WorkspaceKey, ...] = ()


class StepResult(NamedTuple):
    """What a step has compiled for one instance of a tenant. :meth:`PlannedTenant.after` adds it to the plan."""

    state: TenantState
    """The rows that the step was given, with its changes."""
    manifests: Mapping[PlacedKey, Manifest] = MappingProxyType({})
    """The objects that it compiled. One that exceeds 1 MiB is here only: its stored row stays as it is."""
    touched: tuple[UUID, ...] = ()
    """Deployments and resources whose status may have changed though no event was about them."""
    outcomes: tuple[AuditOutcome, ...] = ()
    """Results of operations, for the audit."""

    def with_state(self, state: TenantState) -> StepResult:
        """The same with another state."""
        return self._replace(state=state)

    def on_instance(self, instance: str) -> StepResult:
        """The same as if the tenant were on ``instance``."""
        return self.with_state(self.state.on_instance(instance))

    def with_manifests(self, manifests: Iterable[Manifest]) -> StepResult:
        """The same with these manifests, compiled for the instance that the tenant is on."""
        here = self.state.tenant.engine_instance_id
        return self._replace(manifests={**self.manifests, **{(here, each.key): each for each in manifests}})


class PlannedTenant(NamedTuple):
    """A tenant as planned so far. Each step takes one and returns the next."""

    state: TenantState
    incarnations: Mapping[ResourceName, Collection[UUID]] = MappingProxyType({})
    """For each name that the events are about, the ids of all incarnations, also of those that the events add."""
    cause: Cause | None = None
    """The newest event that requires more than new statuses; None: there was none."""
    touched: Mapping[UUID, Cause] = MappingProxyType({})
    """For each deployment or resource that is concerned, the last event that concerned it, in the order of events."""
    actors: Mapping[UUID, str] = MappingProxyType({})
    """Who changed a custom resource last, for the audit."""
    outcomes: tuple[AuditOutcome, ...] = ()
    """Results of operations, for the audit, in the order in which they became known."""
    manifests: Mapping[PlacedKey, Manifest] = MappingProxyType({})
    """Objects that this plan has compiled."""
    due: Mapping[UUID, datetime] = MappingProxyType({})
    """When resources have to be planned again even if nothing happens."""
    shown: StatusChanges = StatusChanges()
    """Statuses that this plan has compiled."""

    @property
    def last_cause(self) -> Cause | None:
        """The newest event that requires anything, by the clock of the edge that saw it; None: there was none."""
        causes = filter(None, (self.cause, *reversed([*self.touched.values()])))
        return max(causes, key=lambda each: each.at, default=None)

    def after(self, step: StepResult) -> PlannedTenant:
        """The same with what a step has compiled."""
        if self.cause is None or (step.state is self.state and not step.manifests):
            return self
        new = {each: self.cause for each in step.touched if each not in self.touched}
        return self._replace(
            state=step.state,
            touched={**self.touched, **new} if new else self.touched,
            outcomes=(*self.outcomes, *step.outcomes),
            manifests={**self.manifests, **step.manifests} if step.manifests else self.manifests,
        )

    def with_state(self, state: TenantState) -> PlannedTenant:
        """The same with another state."""
        return self._replace(state=state)

    def touching(self, subject: UUID, cause: Cause) -> PlannedTenant:
        """The same after another event that concerned a deployment or resource."""
        return self._replace(touched=_last(self.touched, subject, cause))

    def due_by(self, subject: UUID, at: datetime) -> PlannedTenant:
        """The same with a resource that is planned again at this time at the latest."""
        return self._replace(due={**self.due, subject: min(at, self.due.get(subject, at))})

    def with_outcome(self, outcome: AuditOutcome) -> PlannedTenant:
        """The same with the result of an operation."""
        return self._replace(outcomes=(*self.outcomes, outcome))

    def with_row(self, row: Deployment | PlainResource, cause: Cause, actor: str = "") -> PlannedTenant:
        """The same with this row; the steps compile what depends on it."""
        rows = self.state.with_deployments(row) if isinstance(row, Deployment) else self.state.with_plain_resources(row)
        actors = {**self.actors, row.id: actor} if actor else self.actors
        return self._replace(state=rows, cause=cause, actors=actors, touched=_last(self.touched, row.id, cause))


def _last(touched: Mapping[UUID, Cause], subject: UUID, cause: Cause) -> dict[UUID, Cause]:
    moved = dict(touched)
    moved.pop(subject, None)
    moved[subject] = cause
    return moved


def upsert_objects(step: StepResult, manifests: Iterable[Manifest], owner: Owner) -> StepResult:
    """The same with these objects of ``owner``, except those that exceed 1 MiB."""
    stored = step.state.objects
    news: dict[EngineObjectKey, EngineObject] = {}
    made: list[Manifest] = []
    for manifest in manifests:
        wanted = EngineObject(True, manifest.digest, manifest.size, owner)
        if manifest.is_oversized:
            made.append(manifest)
        elif stored.get(manifest.key) != wanted:
            news[manifest.key] = wanted
            made.append(manifest)
    if not made:
        return step
    return step.with_state(step.state.with_objects(news)).with_manifests(made)


def withdraw_objects(
    step: StepResult, keys: Iterable[EngineObjectKey], departing: Mapping[EngineObjectKey, Manifest]
) -> StepResult:
    """The same with these objects marked absent, and with a replacement manifest for those in ``departing``."""
    stored = {key: step.state.objects[key] for key in keys if step.state.objects[key].is_desired}
    said = {key: departing[key] for key in stored if key in departing}
    gone = {
        key: EngineObject(False, said[key].digest, said[key].size, each.owner)
        if key in said
        else replace(each, is_desired=False)
        for key, each in stored.items()
    }
    if not gone:
        return step
    return step.with_state(step.state.with_objects(gone)).with_manifests(said.values())
