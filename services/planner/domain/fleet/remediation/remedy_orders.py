"""Carries out the remedies that come next: orders to agents and provisioners, moves of tenants, and the audit. Pure.

An order to an agent is a compiled row of the instance. The agent carries it out and reports the result. The row is
removed when the remedy has had its time, and while the instance is held or healthy. An order to a provisioner is a time
in the row of the instance itself.

The planner that decides on the fleet calls this. The agents' reports come to the planners of their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from services.common.messages import REMEDY, Applied, Failed, Observation, RetireEngineInstance
from services.kinds.shared.resource import Cause
from services.planner.domain.audit import instance_record, move_record
from services.planner.domain.changes import Changes
from services.planner.domain.events import Event
from services.planner.domain.fleet.agent_orders import agent_order
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import state_in_words
from services.planner.domain.fleet.remediation.evacuation import evacuate, find_stranded
from services.planner.domain.fleet.remediation.forced_moves import (
    changed_moves,
    with_forced_moves,
    without_evacuation,
    without_forced_moves,
)
from services.planner.domain.fleet.remediation.ladder import is_evacuation_due
from services.planner.domain.fleet.remediation.remediation import next_remedies
from services.planner.domain.fleet.remediation.remediation_rows import ACTOR, Remediation, RemedyReport
from services.planner.domain.fleet.remediation.replacement import (
    awaited_replacement,
    give_order,
    is_replaceable,
    is_replaced,
    replacement_of,
)
from services.planner.domain.fleet.remediation.rungs import EVACUATE
from services.planner.domain.fleet.rows import EngineInstanceRow, FleetOrderRecord
from services.planner.domain.policy import RemedyPolicy
from services.planner.rows.audit import AuditRecord
from services.planner.rows.compiled import EngineKey, EngineRow

REMEDIATION = "Remediation"
"""Kind of the audit records of remedies, whose subject is an engine instance."""


def decide_remedies(
    fleet: Fleet, remediations: Mapping[str, Remediation], now: datetime, policy: RemedyPolicy
) -> Changes:
    """What is done for instances that are ill, and for those that are not ill any more.

    Args:
        fleet: all rows; what is on :func:`replaced_instances`; all tenants, and what is on all instances, if
            :func:`may_evacuate`.
        remediations: all rows, by instance.
        now: the time.
        policy: what operators have set.
    """
    evacuated = [name for name, row in remediations.items() if row.has_tried(EVACUATE)]
    stranded = find_stranded([name for name in evacuated if fleet.is_down(name)], fleet, now)
    rows = next_remedies(fleet, remediations, now, policy, stranded)
    orders: list[FleetOrderRecord] = []
    after = fleet
    for name in evacuated:
        if not fleet.is_down(name):
            after = without_forced_moves(name, after)
    for number, row in enumerate(rows):
        rows[number], given, after = _order_of_provisioner(row, remediations.get(row.engine_instance_id), after, now)
        orders += given
    for number, row in enumerate(rows):  # after replacements are ordered: tenants may wait for these
        if _is_evacuated(row, fleet):
            forced = with_forced_moves(row.engine_instance_id, after, now)
            summary, after = evacuate(row.engine_instance_id, forced, now)
            rows[number] = _with_reason_to_stay(row, remediations.get(row.engine_instance_id), summary, after)
        elif row.state == "well" or not fleet.is_ill(row.engine_instance_id):
            after = without_evacuation(row.engine_instance_id, after, f"its evacuation is over: {row.message}")
    moves, steps = changed_moves(fleet, after, now), {move.id: move.step for move in fleet.moves.values()}
    changed = [(remediations.get(row.engine_instance_id), row) for row in rows]
    return Changes(
        remediations=tuple(rows),
        engine_instances=tuple(row for row in after.instances.values() if row != fleet.instances.get(row.id)),
        fleet_orders=tuple(orders),
        moves_ordered=moves,
        engine=tuple(_order_to_agent(row, now) for before, row in changed if _is_newly_ordered(before, row)),
        engine_gone=tuple(
            _order_key(before) for before, row in changed if before is not None and _is_over(before, row)
        ),
        audit_records=(
            *(_remedy_record(row, fleet, now) for before, row in changed if _is_audited(before, row)),
            *(move_record(move) for move in moves if move.step != steps.get(move.id)),
        ),
    )


def _order_of_provisioner(
    row: Remediation, before: Remediation | None, fleet: Fleet, now: datetime
) -> tuple[Remediation, tuple[FleetOrderRecord, ...], Fleet]:
    """The row, the orders and the fleet after the orders to an instance's provisioner, if it has one."""
    instance = fleet.instances[row.engine_instance_id]
    if row.newest.executor == "provisioner" and _is_taken(before, row) and instance.wanted_version is not None:
        return row, (), fleet.with_instance(replace(instance, reapply_ordered_at=now))
    if not is_replaceable(instance, fleet):
        return row, (), fleet
    if row.newest == EVACUATE and _is_taken(before, row):
        row, added, after, refusal = _with_replacement(row, instance, fleet, now)
        message = f"{row.message}; no other is added, 'gitopsctl engines add' one: {refusal}"
        return replace(row, message=message) if refusal else row, added, after
    is_last = row.state == "exhausted" and is_replaced(row, fleet)
    return _retire_replaced(row, instance, fleet, now) if is_last else (row, (), fleet)


def _retire_replaced(
    row: Remediation, instance: EngineInstanceRow, fleet: Fleet, now: datetime
) -> tuple[Remediation, tuple[FleetOrderRecord, ...], Fleet]:
    """The row, the orders and the fleet after the instance was retired, if the one in its place takes tenants."""
    row, added, after, refusal = _with_replacement(row, instance, fleet, now)
    if refusal:
        return replace(row, message=f"it is not retired, as none can take its place: {refusal}"), (), fleet
    if (awaited := awaited_replacement(instance, row.replaced_by, after)) is not None:
        message = f"it is retired as soon as {awaited.id} takes tenants: {state_in_words(awaited)}"
        return replace(row, message=message), added, after
    retired, after, refusal = give_order(RetireEngineInstance(instance.id), after, now)
    return replace(row, message=f"it is not retired yet: {refusal}") if refusal else row, (*added, *retired), after


def _with_replacement(
    row: Remediation, instance: EngineInstanceRow, fleet: Fleet, now: datetime
) -> tuple[Remediation, tuple[FleetOrderRecord, ...], Fleet, str]:
    """The row with the instance in its place, what was ordered, the fleet then, and the rule against the order.

    No instance is ordered while the one that was ordered before is in service or about to be: an instance that is down
    each night has one replacement, not many.
    """
    replacement = fleet.instances.get(row.replaced_by)
    wanted = replacement_of(instance, fleet)
    if wanted is None or (replacement is not None and (replacement.state == "provisioning" or replacement.is_taking)):
        return row, (), fleet, ""
    if replacement is not None and replacement.state == "failed":
        mend = f"mend that, or 'gitopsctl engines retire {replacement.id}'"
        return row, (), fleet, f"engine instance {replacement.id} was added for that, and has failed: {mend}"
    orders, after, refusal = give_order(wanted, fleet, now)
    return row if refusal else replace(row, replaced_by=wanted.id), orders, after, refusal


def _with_reason_to_stay(row: Remediation, before: Remediation | None, summary: str, after: Fleet) -> Remediation:
    """The row with why tenants stay, if none is leaving. When the rung is just taken, the row says why that is."""
    is_anybody_leaving = any(move.source == row.engine_instance_id for move in after.moves.values())
    return row if is_anybody_leaving or not summary or _is_taken(before, row) else replace(row, message=summary)


def _is_evacuated(row: Remediation, fleet: Fleet) -> bool:
    """Whether an instance is being evacuated, whatever other rung it is at."""
    is_going_on = row.state in ("acting", "waiting")
    return is_going_on and row.has_tried(EVACUATE) and fleet.is_down(row.engine_instance_id)


def may_evacuate(remediations: Iterable[Remediation], fleet: Fleet) -> bool:
    """Whether one of the instances may be evacuated, so that all tenants have to be loaded."""
    return any(
        (health := fleet.health.get(row.engine_instance_id)) is not None and is_evacuation_due(health, row.remedies)
        for row in remediations
    )


def replaced_instances(remediations: Iterable[Remediation]) -> list[str]:
    """Ids of instances that may be retired: they have to be locked, so that no tenant comes to them meanwhile."""
    return [row.engine_instance_id for row in remediations if row.has_tried(EVACUATE)]


def is_of_remedy(event: Event) -> bool:
    """Whether an event is an agent's report on a remedy."""
    match event.message:
        case Observation(kind=kind, event=Applied() | Failed()):
            return kind == REMEDY
        case _:
            return False


def apply_remedy_reports(events: Iterable[Event]) -> Changes:
    """What agents have reported on remedies: of each instance the newest report."""
    newest = {report.engine_instance_id: report for report in _read_reports(events)}
    return Changes(remedy_reports=tuple(newest.values()))


def _read_reports(events: Iterable[Event]) -> Iterator[RemedyReport]:
    for event in events:
        match event.message:
            case Observation(engine_instance_id=instance, name=name, event=Applied()) if name.isdecimal():
                yield RemedyReport(instance, int(name), "done", "")
            case Observation(engine_instance_id=instance, name=name, event=Failed(message=why)) if name.isdecimal():
                yield RemedyReport(instance, int(name), "skipped", why)


def _is_audited(before: Remediation | None, row: Remediation) -> bool:
    """Whether the row gets an audit record: a remedy is taken, or the instance is well after one."""
    if row.state == "well":
        return before is not None and bool(before.rung)
    return _is_taken(before, row)


def _is_ordered(row: Remediation) -> bool:
    """Whether an agent has to carry the newest remedy out; not after its time, or while the instance is held."""
    return row.state == "acting" and row.is_of_agent


def _is_newly_ordered(before: Remediation | None, row: Remediation) -> bool:
    """Whether an agent gets an order for the newest remedy that it does not have yet."""
    has_order = before is not None and before.number == row.number and _is_ordered(before)
    return _is_ordered(row) and not has_order


def _is_taken(before: Remediation | None, row: Remediation) -> bool:
    return row.number != (before.number if before is not None else 0)


def _is_over(before: Remediation, row: Remediation) -> bool:
    return before.is_of_agent and not (_is_ordered(row) and before.number == row.number)


def _order_key(row: Remediation) -> EngineKey:
    return EngineKey(row.engine_instance_id, REMEDY, "", str(row.number), "")


def _order_to_agent(row: Remediation, now: datetime) -> EngineRow:
    return agent_order(_order_key(row), {"number": row.number, "remedy": row.rung}, Cause(now, ""))


def _remedy_record(row: Remediation, fleet: Fleet, now: datetime) -> AuditRecord:
    instance, what = row.engine_instance_id, row.rung or "Well"
    health = fleet.health.get(instance)
    reason = f" ({health.reason})" if health is not None and health.reason else ""
    change, message = f"remedy/{row.number}/{what}", f"{what}{reason}: {row.message}"
    return instance_record(REMEDIATION, instance, change, message, ACTOR, now, generation=row.number)
