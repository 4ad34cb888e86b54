"""Dormant rows are loaded only when an event, or a resource that is loaded, names them.

These are sync runs that have ended and whose CR is gone, promotion runs that are complete but for the newest, resources
beyond the quotas, and those of kinds that are dormant as a whole: there may be any number of them.
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
"""Resources of a kind beyond the quotas that are loaded with their tenant: the oldest, which get the room left."""


IDLE: Subset[Deployment] = Subset(lambda each: each.spec is None and each.pending_spec is None)
"""Deployments without a spec that counts."""
GONE: Subset[PlainResource] = Subset(lambda each: not each.present)
"""Resources without a CR."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Dormant rows of one tenant that events may concern."""

    ids: frozenset[UUID] = frozenset()
    names: frozenset[tuple[str, str]] = frozenset()
    """Kinds and names, of whatever incarnation."""
    waiting: tuple[tuple[str, int], ...] = ()
    """Kinds, and how many of the oldest resources of each that are beyond the quotas."""

    def __bool__(self) -> bool:
        return bool(self.ids or self.names or self.waiting)


def lookup_for(state: TenantState, events: Sequence[Event], kinds: Registry) -> Lookup:
    """What is to be looked up before ``events`` are planned; nothing if the tenant has no dormant rows."""
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
    """Deployments without a spec that counts, beyond as many as may be had."""
    idle = index_of(state.deployments, IDLE)
    most = limits.of(GITOPS_DEPLOYMENT.kind)
    return frozenset(sorted(idle)[most:]) if len(idle) > most else frozenset()


def dormant_plain_resources(state: TenantState, kinds: Registry) -> frozenset[UUID]:
    """Runs that are over, resources of dormant kinds, and those beyond the quotas that wait longest."""
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
    """Promotion runs that are complete and of no concern to any other."""
    return long_complete(index_of(state.plain_resources, COMPLETE_RUNS).values())


def may_have_more_waiting(state: TenantState, kind: str) -> bool:
    """Whether more resources of a kind may be beyond the quotas than are loaded."""
    beyond = index_of(state.plain_resources, RESOURCES_OVER_QUOTA).values()
    return sum(each.kind == kind for each in beyond) >= WAITING_KEPT


def woken(now: TenantState, before: TenantState) -> TenantState:
    """``now``, which is ``before`` with dormant rows: these count as dormant no more."""
    if now is before or not before.admitted_dormant:
        return now
    rows = (now.plain_resources[each] for each in now.plain_resources.keys() - before.plain_resources.keys())
    counts = Counter(before.admitted_dormant) - Counter(each.kind for each in rows if is_admitted(each))
    return now._replace(admitted_dormant=counts)


def fallen_asleep(now: TenantState, rows: Iterable[PlainResource]) -> TenantState:
    """``now``, of which these rows have become dormant."""
    counts = Counter(each.kind for each in rows if is_admitted(each))
    return now._replace(admitted_dormant=counts + Counter(now.admitted_dormant)) if counts else now


def is_admitted(known: PlainResource) -> bool:
    """Whether it counts against its quota."""
    return known.present and not known.over_quota


def _unnamed(state: TenantState, kinds: Registry) -> set[UUID]:
    """Of dormant kinds all within the quotas that no loaded resource names, and that wait for nothing themselves."""
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
    """Of a kind all but the oldest: by kind, because quotas are, and none may wait behind others that get no room."""
    waiting = sorted((each.created_at, each.id) for each in beyond if each.kind == kind)
    return [subject for _, subject in waiting[WAITING_KEPT:]]


def _names_awaited(state: TenantState, kinds: Registry) -> set[tuple[str, str]]:
    """What is named and not at hand: deployments by open runs, Secrets and what is dormant by resources, children."""
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
    """Kinds of which resources may get room: an open promotion run may end with any event, and leave its own."""
    if any(map(_may_make_room, events)):
        return [kind.name for kind in kinds.plain_kinds]
    return (PROMOTION_RUN.kind,) if index_of(state.plain_resources, OPEN_RUNS) else ()


def _may_make_room(event: Event) -> bool:
    """Whether it may take a resource away, or what an engine holds of one."""
    match event.message:
        case Command(event=ResourceChanged() | ResourceGone() as change):
            return change.kind != GITOPS_DEPLOYMENT.kind
        case Observation(event=StatusReported() | Applied()):
            return False
        case Observation() | Unseen() | Due():
            return True
        case _:
            return False
