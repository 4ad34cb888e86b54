"""Which tenants leave an engine instance that is down: all that no rule keeps there. Pure.

``evacuation_targets.py`` decides where each of them goes. A tenant that is leaving already goes on to its target,
unless its move has not begun and that target is down, too. A tenant that is still coming, because the instance has not
taken it over yet, leaves by a new move in place of the old one.

A tenant stays if it has been evacuated from two other instances of late: it may be what makes one instance ill after
the other, for example by a cluster that answers nothing. Where there are many instances, few tenants have been on the
same three. ``remedy_orders.py`` calls this at each look while the instance is evacuated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.remediation.evacuation_targets import (
    LacksRoom,
    find_move_beyond_room,
    find_move_to_room,
    find_relocations,
)
from services.planner.domain.fleet.rows import Move, Refused
from services.planner.rows.tenants import TenantName, tenant_of_part

RETURNED_WITHIN = timedelta(days=1)
"""How long a move that went back counts."""
EVACUATED_WITHIN = timedelta(days=1)
"""How long it counts that a tenant was on an instance that was ill for a reason which tenants may cause."""
MAX_EVACUATIONS = 2
"""How often a tenant is evacuated before it stays. Each instance gets only a part of the tenants of the one before, so
few tenants have been on all of them. Instances also fail by themselves, but seldom three times for the same tenant."""


def evacuate(instance: str, fleet: Fleet, now: datetime) -> tuple[str, Fleet]:
    """Why some of the tenants stay, and the fleet with the moves of the others.

    The fleet is the very same object if no tenant moves, and none waits for an instance that is not ready yet. A tenant
    that waits takes room on that instance.

    Args:
        instance: id of the instance that is evacuated.
        fleet: all rows, and all tenants.
        now: the time.
    """
    taken = _as_staying(instance, fleet)
    rules = _not_here_alone(instance, taken) | _suspects(instance, fleet)
    leaving = [each for each in find_relocations(instance, taken) if each[0].tenant.full_name not in rules]
    coming = [row for row in fleet.instances.values() if row.state == "provisioning"]
    after, begun = fleet, dict[TenantName, Move]()
    for find_move in (find_move_to_room, partial(find_move_beyond_room, coming)):
        for placed, targets in leaving:
            name = placed.tenant.full_name
            if name in begun:
                continue
            try:
                begun[name] = find_move(placed, targets, after, now)
            except LacksRoom as rule:
                rules[name] = str(rule)
                after = after.with_coming(rule.awaited, fleet.tenants[name]) if rule.awaited else after
            except Refused as rule:
                rules.setdefault(name, str(rule))
            else:
                rules.pop(name, None)
                after = after.with_coming(begun[name].target, fleet.tenants[name])
    summary = f"tenants that cannot leave: {len(rules)}; {next(iter(rules.values()))}" if rules else ""
    return summary, after.with_moves(begun.values())


def find_stranded(instances: Iterable[str], fleet: Fleet, now: datetime) -> dict[str, str]:
    """Instances with tenants of which none can leave and none is on its way, each with why the first tenant stays.

    Args:
        instances: ids of those that are looked at.
        fleet: all rows, and all tenants.
        now: the time.
    """
    found = {}
    for instance in instances:
        here = fleet.tenants.on([instance]).values()
        staying = _as_staying(instance, fleet)
        if here and not any(_is_leaving(tenant, staying) for tenant in here):
            message, after = evacuate(instance, fleet, now)
            if after is fleet:
                found[instance] = message
            fleet = replace(fleet, holdings=after.holdings)  # room is not taken twice
    return found


def _is_leaving(tenant: TenantHere, fleet: Fleet) -> bool:
    return is_moving(tenant, fleet) and fleet.moves[tenant.id].source == tenant.engine_instance_id


def _as_staying(instance: str, fleet: Fleet) -> Fleet:
    """The fleet without moves that an evacuation of the instance replaces.

    These are moves to it of tenants that it has not taken over yet, which the next instance does in its place; and
    moves from it that have not begun and cannot, because their targets are down.
    """

    def is_replaced(move: Move) -> bool:
        has_come = (move.target, move.step) == (instance, "adopting")
        return has_come or ((move.source, move.step) == (instance, "ordered") and fleet.is_down(move.target))

    return replace(fleet, moves={tenant: move for tenant, move in fleet.moves.items() if not is_replaced(move)})


def _not_here_alone(instance: str, fleet: Fleet) -> dict[TenantName, str]:
    """Tenants whose move to the instance is not over: its source has not given them up yet. Each with why it stays."""
    return {
        name: f"its move from {fleet.moves[tenant.id].source} is not over"
        for name, tenant in fleet.tenants.on([instance]).items()
        if is_moving(tenant, fleet) and not _is_leaving(tenant, fleet)
    }


def _suspects(instance: str, fleet: Fleet) -> dict[TenantName, str]:
    """Tenants that may be what makes one instance ill after the other, each with why it stays.

    The health reason of this instance does not count: what a tenant causes may show as another reason at any look.
    """
    here = fleet.tenants.on([instance])
    others = {name: fleet.evacuations.get(tenant_of_part(name), frozenset()) - {instance} for name in here}
    return {
        name: f"it was evacuated from {' and '.join(sorted(left))} within a day, which were ill of what a tenant can "
        "cause, and stays here"
        for name, left in others.items()
        if len(left) >= MAX_EVACUATIONS
    }
