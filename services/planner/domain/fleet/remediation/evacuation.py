"""Which tenants leave an engine instance that is down: all of them that a rule lets go. Pure.

Where each goes is decided in ``evacuation_targets.py``. Those that are leaving already go on to where they were ordered
to go, unless they have not begun and that is down, too. Those that have come by a move whose target, the instance, has
not taken them over yet leave by another one, which takes the place of that.

Those stay that have been evacuated from two others of late: one of them may be what makes one instance ill after the
other (by a cluster that answers nothing, say), and where tenants have many instances to go to few have been on the very
same three. Called by ``remedy_orders.py``, at each look while the instance is evacuated.
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
"""For so long moves count that went back."""
EVACUATED_WITHIN = timedelta(days=1)
"""For so long it counts that a tenant was on an instance that was ill of what tenants may cause."""
MAX_EVACUATIONS = 2
"""From so many it is evacuated, and stays on the next: each has only a part of the tenants of the one before, so those
who have been on all of them become few soon. Instances fail by themselves, too, but seldom three times for a tenant."""


def evacuate(instance: str, fleet: Fleet, now: datetime) -> tuple[str, Fleet]:
    """Why some of the tenants stay, and the fleet with the moves of the others.

    It is the very same if none moves, or waits for an instance that is not ready yet: room is taken for it there.

    Args:
        instance: that they leave.
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
    """Those of ``instances`` that tenants are on of which none can leave or is on its way, with why the first stays."""
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
    """As if the instance had taken over who has come to it: what it has not done yet, the next one does.

    And without moves from it that cannot begin.
    """

    def is_replaced(move: Move) -> bool:
        has_come = (move.target, move.step) == (instance, "adopting")
        return has_come or ((move.source, move.step) == (instance, "ordered") and fleet.is_down(move.target))

    return replace(fleet, moves={tenant: move for tenant, move in fleet.moves.items() if not is_replaced(move)})


def _not_here_alone(instance: str, fleet: Fleet) -> dict[TenantName, str]:
    """Tenants that are there by a move which is not over: its source has not given them up yet."""
    return {
        name: f"its move from {fleet.moves[tenant.id].source} is not over"
        for name, tenant in fleet.tenants.on([instance]).items()
        if is_moving(tenant, fleet) and not _is_leaving(tenant, fleet)
    }


def _suspects(instance: str, fleet: Fleet) -> dict[TenantName, str]:
    """Tenants that may be what makes one instance ill after the other, each with why it stays.

    Whatever is told of this one now: what they cause may look like another illness at any look.
    """
    here = fleet.tenants.on([instance])
    others = {name: fleet.evacuations.get(tenant_of_part(name), frozenset()) - {instance} for name in here}
    return {
        name: f"it was evacuated from {' and '.join(sorted(left))} within a day, which were ill of what a tenant can "
        "cause, and stays here"
        for name, left in others.items()
        if len(left) >= MAX_EVACUATIONS
    }
