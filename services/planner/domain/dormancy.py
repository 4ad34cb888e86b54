"""Dormant rows have no effect. They are loaded only when an event, or a resource that is loaded, names them.

Dormant are sync runs that have ended and whose CR is gone; complete promotion runs, except the newest; resources beyond
the quotas; and resources of kinds that are dormant as a whole. There may be any number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from services.common.api_resource import SECRET
from services.common.messages import (
    Applied,
    Command,
    Observation,
    ResourceChanged,
    ResourceGone,
    StatusReported,
    SyncMoved,
)
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.rows import long_complete
from services.kinds.registry import Registry
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.sync_run.rules import OVER
from services.planner.domain import ids
from services.planner.domain.events import Due, Event, Unseen
from services.planner.domain.indexed_rows import Subset, index_of
from services.planner.domain.live_children import reported_as
from services.planner.domain.state import COMPLETE_RUNS, NAMED, OPEN_RUNS, RESOURCES_OVER_QUOTA, TenantState

WAITING_KEPT = 100
"""For each kind, how many resources beyond the quotas are loaded with their tenant: the oldest, which get room
first."""


IDLE: Subset[Deployment] = Subset(lambda each: each.spec is None and each.pending_spec is None)
"""Deployments without a spec in force, and without one that waits."""
GONE: Subset[PlainResource] = Subset(lambda each: not each.present)
"""Resources without a CR."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The dormant rows of one tenant that events may concern."""

    ids: frozenset[UUID] = frozenset()
    names: frozenset[tuple[str, str]] = frozenset()
    """Kinds and names; all incarnations of each."""
    waiting: tuple[tuple[str, int], ...] = ()
    """For each kind, how many of the oldest resources beyond the quotas."""

    def __bool__(self) -> bool:
        return bool(self.ids or self.names or self.waiting)


def lookup_for(state: TenantState, events: Sequence[Event], kinds: Registry) -> Lookup:
    """The dormant rows that planning ``events`` needs; none if the tenant has no dormant rows."""
    if not state.tenant.dormant:
        return Lookup()
    named = {subject for event in events for subject in _ids_named(event)}
    names = {name for event in events for name in _names_named(event, kinds)} | _names_awaited(state, kinds)
    loaded = Counter(each.kind for each in state.plain_resources.values() if each.over_quota)
    wanted = ((kind, WAITING_KEPT - loaded[kind]) for kind in _kinds_with_room(state, events, kinds))
    return Lookup(
        frozenset(named - state.deployments.keys() - state.plain_resources.keys()),
        frozenset(names),
        tuple((kind, count) for kind, count in wanted if count > 0),
    )


def dormant_deployments(state: TenantState, limits: Limits) -> frozenset[UUID]:
    """Idle deployments that become dormant: those beyond the number that the quota allows."""
    idle = index_of(state.deployments, IDLE)
    most = limits.of(GITOPS_DEPLOYMENT.kind)
    return frozenset(sorted(idle)[most:]) if len(idle) > most else frozenset()


def dormant_plain_resources(state: TenantState, kinds: Registry) -> frozenset[UUID]:
    """Resources that become dormant: ended runs, those of dormant kinds, and the newest beyond the quotas."""
    over = {each for each in index_of(state.plain_resources, GONE) if each in state.sync_runs}
    over = {each for each in over if state.sync_runs[each].state in OVER} | _unnamed(state, kinds)
    beyond = index_of(state.plain_resources, RESOURCES_OVER_QUOTA).values()
    late = {subject for kind in {each.kind for each in beyond} for subject in _late(beyond, kind)}
    late |= {each.id for each in long_complete_runs(state) if (each.kind, each.name) not in state.child_objects}
    if not late:
        return frozenset(over)
    late -= state.objects_by_owner().keys()
    late = {each for each in late if state.plain_resources[each].uid not in state.child_objects_by_owner()}
    stay = [each for each in state.plain_resources.values() if each.id not in late]
    named = {(reference.to.kind, each.refers_to) for each in stay if (reference := kinds[each.kind].reference)}
    spared = {each.id for each in beyond if (each.kind, each.name) in named}
    return frozenset(over | (late - spared))


def long_complete_runs(state: TenantState) -> Collection[PlainResource]:
    """Complete promotion runs that no other run depends on."""
    return long_complete(index_of(state.plain_resources, COMPLETE_RUNS).values())


def may_have_more_waiting(state: TenantState, kind: str) -> bool:
    """Whether resources of a kind may wait for room that are not loaded."""
    beyond = index_of(state.plain_resources, RESOURCES_OVER_QUOTA).values()
    return sum(each.kind == kind for each in beyond) >= WAITING_KEPT


def with_loaded_dormant(now: TenantState, before: TenantState) -> TenantState:
    """``now``, which is ``before`` with dormant rows loaded: these rows no longer count as dormant."""
    if now is before or not before.admitted_dormant:
        return now
    rows = (now.plain_resources[each] for each in now.plain_resources.keys() - before.plain_resources.keys())
    counts = Counter(before.admitted_dormant) - Counter(each.kind for each in rows if is_admitted(each))
    return now._replace(admitted_dormant=counts)


def with_dormant(now: TenantState, rows: Iterable[PlainResource]) -> TenantState:
    """Adds ``rows`` to the dormant counts."""
    counts = Counter(each.kind for each in rows if is_admitted(each))
    return now._replace(admitted_dormant=counts + Counter(now.admitted_dormant)) if counts else now


def is_admitted(known: PlainResource) -> bool:
    """Whether a resource counts against its quota."""
    return known.present and not known.over_quota


def _unnamed(state: TenantState, kinds: Registry) -> set[UUID]:
    """Resources of dormant kinds, within the quotas, that no loaded resource names and that wait for nothing."""
    named = index_of(state.plain_resources, NAMED)
    return {
        each.id
        for kind in kinds.dormant
        for each in state.plain_resources_of_kind(kind.name).values()
        if not each.over_quota
        and not each.progress
        and not any((other.name, each.name) in named for other in kinds.naming(kind))
    }


def _late(beyond: Iterable[PlainResource], kind: str) -> list[UUID]:
    """Resources that wait for room, except the oldest of each kind, because each kind has its own quota."""
    waiting = sorted((each.created_at, each.id) for each in beyond if each.kind == kind)
    return [subject for _, subject in waiting[WAITING_KEPT:]]


def _names_awaited(state: TenantState, kinds: Registry) -> set[tuple[str, str]]:
    """Names that are not loaded: deployments of open runs, Secrets and dormant resources, child objects."""
    at_hand = {each.name for each in state.deployments.values()}
    secrets = state.secrets()
    awaited = {
        (GITOPS_DEPLOYMENT.kind, run.deployment_name)
        for run in state.sync_runs.values()
        if run.state not in OVER and run.deployment_name not in at_hand
    }
    awaited |= _children_awaited(state) | _dormant_awaited(state, kinds)
    return awaited | {
        (SECRET.kind, each.refers_to)
        for each in state.plain_resources.values()
        if each.refers_to and each.refers_to not in secrets and kinds[each.kind].names_a_secret
    }


def _dormant_awaited(state: TenantState, kinds: Registry) -> set[tuple[str, str]]:
    return {
        (kind.name, each.refers_to)
        for kind in kinds.dormant
        for other in kinds.naming(kind)
        for each in state.plain_resources_of_kind(other.name).values()
        if each.present and each.refers_to
    } - {(kind.name, each.name) for kind in kinds.dormant for each in state.plain_resources_of_kind(kind.name).values()}


def _children_awaited(state: TenantState) -> set[tuple[str, str]]:
    if not state.child_objects:
        return set()
    at_hand = {(GITOPS_DEPLOYMENT.kind, each.name) for each in state.deployments.values()}
    at_hand |= {(each.kind, each.name) for each in state.plain_resources.values()}
    return {reported_as(key) for key in state.child_objects} - at_hand


def _ids_named(event: Event) -> Collection[UUID]:
    match event.message:
        case Command(event=ResourceChanged() | ResourceGone() as change) as command:
            return (ids.resource_id(command.workspace, change.uid),)
        case Observation(event=SyncMoved() as moved) as observation:
            return (ids.resource_id(observation.workspace, moved.run),)
        case Due() as due:
            return (due.id,)
        case Unseen() as unseen:
            return unseen.ids
        case _:
            return ()


def _names_named(event: Event, kinds: Registry) -> Iterator[tuple[str, str]]:
    match event.message:
        case Command(event=ResourceChanged() as change):
            yield change.kind, change.name
            kind = kinds[change.kind]
            if kind.reference is not None and (named := kind.referenced_by(change.spec)):
                yield kind.reference.to.kind, named


def _kinds_with_room(state: TenantState, events: Sequence[Event], kinds: Registry) -> Collection[str]:
    """Kinds whose resources may get room. Any event may end an open promotion run, and so make room for another."""
    if any(map(_may_make_room, events)):
        return [kind.name for kind in kinds.plain_kinds]
    return (PROMOTION_RUN.kind,) if index_of(state.plain_resources, OPEN_RUNS) else ()


def _may_make_room(event: Event) -> bool:
    """Whether the event may remove a resource, or an object of one."""
    match event.message:
        case Command(event=ResourceChanged() | ResourceGone() as change):
            return change.kind != GITOPS_DEPLOYMENT.kind
        case Observation(event=StatusReported() | Applied()):
            return False
        case Observation() | Unseen() | Due():
            return True
        case _:
            return False
