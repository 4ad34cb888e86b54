"""Plans a batch: routes its events to tenants, loads these, and plans each.

Rules are pure; this module is not. It reads the database, which begins a transaction, and locks rows that moves change.
It counts and logs the tenants that are parked. It writes no rows: the caller saves what is returned.

Tenants share nothing but the fleet and the transaction. So a rule that raises for one tenant stops only that one: the
tenant is parked, its events are kept, and the others go on. A new tenant is parked, too, if there is no engine instance
for it.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol
from uuid import UUID

import structlog

from services.common.errors import Wait
from services.common.messages import Command, ResyncCompleted
from services.common.telemetry.logging import raised_at
from services.common.telemetry.metrics import Failure, count_failure
from services.kinds.registry import Registry
from services.planner import SERVICE
from services.planner.database.fleet_reader import FleetReader
from services.planner.database.load import Loaded
from services.planner.domain.audit import audit_of_placement
from services.planner.domain.changes import NOTHING, BatchChanges, Changes, TenantChanges
from services.planner.domain.dormancy import Lookup, lookup_for
from services.planner.domain.events import Due, Event, MoveDue, SweepDue, SweepPlace, SweepScope, Unseen
from services.planner.domain.fleet.placement.added_load import added_load
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.reports.installations import decide_installations, is_of_installation
from services.planner.domain.fleet.reports.orphans import instance_of
from services.planner.domain.late_commands import list_of_unknown
from services.planner.domain.parked_statuses import Subjects, known_subjects, named_subjects, parked_statuses
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.domain.state import TenantState
from services.planner.domain.sweeps import SweepFound, by_tenant, decide_sweep, scope_of
from services.planner.domain.tenants_of_name import (
    Share,
    split_by_tenant,
    tenant_after,
    tenant_with_events,
)
from services.planner.pipeline.fleet_planning import plan_fleet, plan_reports
from services.planner.pipeline.parking import parked_event, parked_tenant
from services.planner.rows.consumption import ParkedTenant, RefusedSweep, SweepPart
from services.planner.rows.tenants import Tenant, TenantName

log = structlog.get_logger(__name__)


class Database(Protocol):
    """What planning a batch reads."""

    @property
    def fleet_reader(self) -> FleetReader:
        """What it asks about the fleet."""

    def load_tenants(self, wanted: Collection[TenantName]) -> Loaded:
        """The tenants that have these names, or had them."""

    def look_up_dormant(
        self, states: Mapping[UUID, TenantState], lookups: Mapping[UUID, Lookup]
    ) -> Mapping[UUID, TenantState]:
        """``states`` with the dormant rows that ``lookups`` name."""

    def find_unseen(self, scopes: Sequence[SweepScope]) -> Mapping[SweepScope, SweepFound]:
        """What complete lists did not show, except what a sweep is already removing."""

    def find_unseen_of(self, part: SweepPart) -> Mapping[UUID, TenantName]:
        """The resources of a part that still exist and were not seen since, with the names of their tenants."""

    def find_newest_lists(self, places: Collection[SweepPlace]) -> Mapping[SweepPlace, int]:
        """The epoch of the newest complete list of each of these places that has one."""

    def find_tenants_to_move(self, tenants: Collection[UUID]) -> frozenset[UUID]:
        """Those of ``tenants`` that have a move which their planner has not begun."""


def split_at_markers(events: Iterable[Event], limit: int = sys.maxsize) -> Iterator[Sequence[Event]]:
    """Parts of at most ``limit`` events, each to be written before the next is planned. There is at least one.

    A resync marker is about everything before it, and the database is asked about that: so it begins a part. So does an
    approval, also right after other markers: it is about a marker that was refused before, and a replay may have both
    in one batch. Events about the fleet are the first part, so that tenants are placed on the fleet as these leave it.
    """
    events = list(events)
    part = [event for event in events if event.is_of_fleet]
    if part:
        yield part
        part = []
    for event in (event for event in events if not event.is_of_fleet):
        if len(part) >= limit or (part and _begins(event, part[-1])):
            yield part
            part = []
        part.append(event)
    yield part


def _begins(event: Event, before: Event) -> bool:
    """Whether ``event`` asks the database about what was written before."""
    return _scope(event) is not None and (_scope(before) is None or bool(_approved(event)))


def plan_batch(
    events: Sequence[Event],
    database: Database,
    policy: Policy,
    now: datetime,
    only: TenantName | None = None,
) -> BatchChanges:
    """What a part's ``events``, in their order, change.

    Args:
        events: the part.
        database: what is read.
        policy: what operators have set.
        now: the time.
        only: if given, only tenants of this name are planned.
    """
    reader = database.fleet_reader
    of_fleet = plan_fleet([event for event in events if event.is_of_fleet], reader, policy, now)
    events = [event for event in events if not event.is_of_fleet]
    routed, sweeps = route([event for event in events if not instance_of(event)], database, policy.guard, now, only)
    if only is not None:
        routed = {name: each for name, each in routed.items() if name == only}
    loaded = database.load_tenants(routed.keys())
    if only is None:
        routed = _without_late(routed, loaded.tenants, sweeps.lists_completed, database)
    # Agents may report on instances that do not exist, or no longer: their rows would have no topic to be streamed to.
    of_instances = [event for event in events if loaded.fleet.is_there(instance_of(event))]
    of_fleet += plan_reports(of_instances, reader, policy, now)
    # What is removed is of an instance that is retired, which the view of the fleet leaves out.
    of_fleet.append(decide_installations(event for event in events if is_of_installation(event)))
    shares = {
        share.state.tenant.id: share
        for name, each in routed.items()
        for share in split_by_tenant(loaded.tenants[name], each, loaded.fleet)
    }
    live = {tenant: share for tenant, share in shares.items() if tenant not in loaded.parked}
    looked_up, defects = _looked_up(database, live, loaded.defects, policy.kinds)
    planned, load = _plan_all(looked_up, defects, loaded.fleet, database, policy, now)
    failed = tuple(each for each in planned if isinstance(each, ParkedTenant))
    kept = [
        *(_still_parked(share, policy.kinds, now) for each, share in shares.items() if each not in live),
        *(_newly_parked(shares[each.tenant_id], loaded.fleet, policy, now) for each in failed),
    ]
    done = tuple(each for each in planned if isinstance(each, TenantChanges))
    other = Changes.merged([*of_fleet, sweeps, Changes(parked=failed), *kept])
    return BatchChanges(done, other, _swept(live[each.tenant.id] for each in done), load)


def _swept(shares: Iterable[Share]) -> frozenset[tuple[str, UUID]]:
    """Resources of these tenants that complete lists did not show, each once."""
    unseen = (event.message for share in shares for event in share.events if isinstance(event.message, Unseen))
    return frozenset((each.scope.kind, subject) for each in unseen for subject in each.ids)


def route(
    events: Sequence[Event], database: Database, guard: SweepGuard, now: datetime, only: TenantName | None = None
) -> tuple[dict[TenantName, list[Event]], Changes]:
    """The events of each name, and what resync markers decide. If ``only`` is given, of tenants of that name.

    A marker may remove resources of many tenants: each gets an event with the resources that the list did not show. The
    resources of parked tenants are not known: these tenants get the marker.
    """
    scopes = [scope for event in events if (scope := _scope(event)) is not None]
    found = database.find_unseen(scopes) if scopes else {}
    routed: dict[TenantName, list[Event]] = defaultdict(list)
    removed: dict[SweepPlace, set[UUID]] = defaultdict(set)
    decided: list[Changes] = []
    for event in events:
        scope = _scope(event)
        if isinstance(due := event.message, SweepDue):
            for name, subjects in by_tenant(database.find_unseen_of(due.part)).items():
                routed[name].append(_unseen(event, scope_of(due.part), name, subjects, now))
            decided.append(Changes(sweep_parts_done=(due.number,)))
        elif scope is None:
            routed[event.tenant_name].append(event)
        else:
            there = found[scope].without(removed[scope.place])
            decided.append(decide_sweep(scope, there, _approved(event), event.cause(now), guard, only))
            if not decided[-1].refused_sweeps:
                removed[scope.place].update(there.unseen)
                for name in there.parked:
                    routed[name].append(event)
    sweeps = Changes.merged(decided)
    return routed, sweeps._replace(
        refused_sweeps=_newest_refused(sweeps.refused_sweeps), lists_completed=_newest_lists(scopes)
    )


def _without_late(
    routed: Mapping[TenantName, Sequence[Event]],
    tenants: Mapping[TenantName, Collection[TenantState]],
    completed: Iterable[SweepScope],
    database: Database,
) -> dict[TenantName, list[Event]]:
    """The events without changes of unknown resources that a newer list lacks. ``completed`` lists count."""
    judged = [
        (name, event, list_of_unknown(event, tenants[name])) for name, events in routed.items() for event in events
    ]
    places = {scope.place for *_, scope in judged if scope is not None}
    newest = {**database.find_newest_lists(places)} if places else {}
    for listed in completed:
        newest[listed.place] = max(listed.epoch, newest.get(listed.place, 0))
    kept: dict[TenantName, list[Event]] = defaultdict(list)
    for name, event, scope in judged:
        if scope is None or scope.epoch >= newest.get(scope.place, 0):
            kept[name].append(event)
    return kept


def _newest_lists(scopes: Iterable[SweepScope]) -> tuple[SweepScope, ...]:
    """The newest list of each place: each row can be written once."""
    newest = {scope.place: scope for scope in sorted(scopes, key=lambda each: each.epoch)}
    return tuple(newest.values())


def _newest_refused(sweeps: Iterable[RefusedSweep]) -> tuple[RefusedSweep, ...]:
    """The newest refused sweep of each place: each row can be written once."""
    newest = {(each.source, each.kind, each.partition): each for each in sorted(sweeps, key=lambda each: each.epoch)}
    return tuple(newest.values())


def _scope(event: Event) -> SweepScope | None:
    match event.message:
        case Command(event=ResyncCompleted() as marker) as command:
            return SweepScope(command.source, marker.kind, event.partition, marker.epoch)
        case _:
            return None


def _approved(event: Event) -> str:
    """The digest of what an operator has approved; empty if the event is no approval."""
    match event.message:
        case Command(event=ResyncCompleted(approved=approved)):
            return approved
        case _:
            return ""


def _unseen(event: Event, scope: SweepScope, name: TenantName, subjects: Collection[UUID], now: datetime) -> Event:
    workspace, namespace = name
    return replace(event, message=Unseen(workspace, namespace, scope, frozenset(subjects), event.cause(now).at))


def _looked_up(
    database: Database, shares: Mapping[UUID, Share], defects: Mapping[UUID, Exception], kinds: Registry
) -> tuple[Mapping[UUID, Share], Mapping[UUID, Exception]]:
    """The shares with the dormant rows that events name, and the Secrets that those name; and rules that failed."""
    for _ in range(2):
        lookups: dict[UUID, Lookup] = {}
        for tenant, share in shares.items():
            try:
                lookups[tenant] = lookup_for(share.state, share.events, kinds)
            except Exception as defect:
                defects = {**defects, tenant: defect}
        wanted = {tenant: lookup for tenant, lookup in lookups.items() if lookup}
        if not wanted:
            break
        found = database.look_up_dormant({tenant: shares[tenant].state for tenant in wanted}, wanted)
        if all(found[tenant] is shares[tenant].state for tenant in wanted):
            break
        shares = {**shares, **{tenant: shares[tenant]._replace(state=state) for tenant, state in found.items()}}
    return shares, defects


def _plan_all(
    shares: Mapping[UUID, Share],
    defects: Mapping[UUID, Exception],
    fleet: PlacementView,
    database: Database,
    policy: Policy,
    now: datetime,
) -> tuple[list[TenantChanges | ParkedTenant], Counter[str]]:
    """What becomes of each tenant, and the load that this adds to instances. The load counts for the next new tenant.

    A tenant that gets its first deployment on another instance is planned without that if a move of it is ordered. Its
    planner reads of a move only once the move begins, so the database is asked, for these few tenants.
    """
    planned: dict[UUID, TenantChanges | ParkedTenant] = {}
    load = Counter[str]()
    for tenant, share in shares.items():
        defect = defects.get(tenant)
        each = planned[tenant] = _parked(share.state, defect, now) if defect else _plan(share, fleet, policy, now)
        if isinstance(each, TenantChanges):
            added = added_load(each, share.state, fleet)
            fleet, load = fleet.with_added_load(added), load + added
    split = [tenant for tenant, each in planned.items() if isinstance(each, TenantChanges) and each.written.parts]
    to_move = database.find_tenants_to_move(split) if split else frozenset[UUID]()
    undivided = replace(fleet, to_move=to_move)
    replanned = {tenant: _plan(shares[tenant], undivided, policy, now) for tenant in to_move}
    return [*(planned | replanned).values()], load


def _plan(share: Share, fleet: PlacementView, policy: Policy, now: datetime) -> TenantChanges | ParkedTenant:
    """What becomes of a tenant. It is parked if a rule fails on it, or if it cannot be placed."""
    try:
        return plan(share.state, share.events, fleet, policy, now)
    except Wait as reason:
        tenant = tenant_with_events(share.state.tenant, share.events)
        # Of a new one that is a former one already there is nothing, and never will be.
        return TenantChanges(tenant, NOTHING, None) if tenant.is_former else _parked(share.state, reason, now)
    except Exception as reason:
        return _parked(share.state, reason, now)


def _parked(state: TenantState, reason: Exception, now: datetime) -> ParkedTenant:
    parked = parked_tenant(state.tenant, reason, now)
    count_failure(SERVICE, reason if isinstance(reason, Wait) else Failure.DEFECT, "plan")
    log.error(
        "the tenant is parked",
        workspace=parked.workspace,
        namespace=parked.namespace,
        error=parked.error,
    )
    return parked


def _parked_changes(share: Share, tenant: Tenant, subjects: Callable[[], Subjects], now: datetime) -> Changes:
    """What is written of a parked tenant: its events, its row, and the statuses of ``subjects``.

    Timer events are not kept: they become due again. A tenant without an instance has no row; once it is placed, its
    events make the row.
    """
    before, events = share.state.tenant, share.events
    rows = tuple(parked_event(before.id, event) for event in events if not isinstance(event.message, Due | MoveDue))
    is_placed = bool(tenant.engine_instance_id)
    kept = Changes(
        parked_events=rows,
        tenants=(tenant,) if is_placed and tenant != before else (),
        tenants_replaced=(tenant,) if is_placed and tenant.is_former and not before.is_former else (),
        audit_records=audit_of_placement(tenant, before, events[-1].cause(now)),
    )
    try:
        shown = parked_statuses(share.state._replace(tenant=tenant), subjects(), events[-1].cause(now))
    except Exception as defect:  # it is parked all the same
        count_failure(SERVICE, Failure.DEFECT, "parked status")
        log.error("a parked tenant does not show it", error=f"{type(defect).__name__} at {raised_at(defect)}")  # noqa: TRY400
        return kept
    return kept._replace(workspace=shown.rows, workspace_gone=shown.gone)


def _newly_parked(share: Share, fleet: PlacementView, policy: Policy, now: datetime) -> Changes:
    """What is written of a tenant that becomes parked. All its resources show it."""
    (state, events), kinds = share, policy.kinds
    try:
        tenant = tenant_after(state.tenant, events, fleet, policy)
    except Wait:
        tenant = tenant_with_events(state.tenant, events)
    return _parked_changes(
        share, tenant, lambda: {**known_subjects(state, kinds), **named_subjects(state, events, kinds)}, now
    )


def _still_parked(share: Share, kinds: Registry, now: datetime) -> Changes:
    """What is written of a tenant that was parked before. Resources that its events name may be new, and show it, too.

    The tenant is not placed, because a tenant without an instance is found by that.
    """
    tenant = tenant_with_events(share.state.tenant, share.events)
    return _parked_changes(share, tenant, lambda: named_subjects(*share, kinds), now)
