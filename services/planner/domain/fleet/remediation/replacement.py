"""An engine instance in place of one that is given up, where a provisioner installs it. Pure.

The new instance is ordered when the evacuation of the old one begins, so that its tenants have somewhere to go. If a
rule was against the order, it is given again when the old instance is to be retired. A pool adds the new instance by
itself. The old instance is retired when no tenant is left on it and the new one takes tenants; its provisioner removes
it. These are orders as operators give them: the same rules apply, and each has an audit record.

An old instance that is well again stays, and so does the new one: the next time no other is ordered. An instance that
is draining or drained is not replaced. Whoever ordered that retires it, for example an operator who first looks at what
a failed rollout has left.
"""

from __future__ import annotations

from datetime import datetime

from services.common.messages import AddEngineInstance, Order
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.orders import decide_own_order, record_of
from services.planner.domain.fleet.pools.pool_rows import namespace_of
from services.planner.domain.fleet.remediation.remediation_rows import ACTOR, Remediation
from services.planner.domain.fleet.remediation.rungs import REPLACE
from services.planner.domain.fleet.rows import EngineInstanceRow, FleetOrderRecord


def is_replaceable(row: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether planners may replace an instance: it stays, is within reach, and a provisioner has installed it."""
    health = fleet.health.get(row.id)
    is_installed = row.wanted_version is not None and health is not None and not health.is_out_of_reach
    return is_installed and not row.is_leaving


def is_replaced(row: Remediation, fleet: Fleet) -> bool:
    """Whether an instance that is down has come to the last rung, whatever else was tried for it since."""
    return row.has_tried(REPLACE) and fleet.is_down(row.engine_instance_id)


def replacement_of(row: EngineInstanceRow, fleet: Fleet) -> AddEngineInstance | None:
    """The order of another instance of the same sort; None for an instance of a pool, which adds its own."""
    if _is_of_pool(row, fleet):
        return None
    name = fleet.next_name(row.engine_cluster, row.ring)
    return AddEngineInstance(
        id=name,
        engine_cluster=row.engine_cluster,
        namespace=namespace_of(name),
        engine=row.engine,
        engine_class=row.engine_class,
        dedicated_to=row.dedicated_to,
        ring=row.ring,
        capacity=row.capacity,
        wanted_version=row.wanted_version or "",
        profile=row.profile or "",
    )


def awaited_replacement(row: EngineInstanceRow, replaced_by: str, fleet: Fleet) -> EngineInstanceRow | None:
    """The instance in place of this one that is not ready yet; None: it is ready, or there is none.

    No row says why a pool has added an instance, so each of the pool that is being installed is awaited.

    Args:
        row: the instance that is given up.
        replaced_by: the instance that was ordered in its place; empty: none was.
        fleet: all rows.
    """

    def takes_its_place(each: EngineInstanceRow) -> bool:
        if not _is_of_pool(row, fleet):
            return each.id == replaced_by
        return _cell_of_pool(each) == _cell_of_pool(row) and each.wanted_version is not None

    return next((each for each in fleet.instances.values() if each.is_unready and takes_its_place(each)), None)


def _is_of_pool(row: EngineInstanceRow, fleet: Fleet) -> bool:
    return row.engine_class == "shared" and (row.engine_cluster, row.ring) in fleet.pools


def _cell_of_pool(row: EngineInstanceRow) -> tuple[str, str, str]:
    return row.engine_cluster, row.ring, row.engine_class


def give_order(order: Order, fleet: Fleet, now: datetime) -> tuple[tuple[FleetOrderRecord, ...], Fleet, str]:
    """What was ordered, if the rules accept it; the fleet then; and the rule that is against it, or empty."""
    given, decision = decide_own_order(order, ACTOR, fleet, now)
    if decision.outcome != "accepted":
        return (), fleet, decision.message
    return (record_of(given, decision, now),), decision.fleet, ""
