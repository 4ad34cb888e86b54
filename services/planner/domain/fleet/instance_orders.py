"""Decides on orders about single engine instances, and which states follow from what is on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from services.common.messages import (
    AddEngineInstance,
    DedicateEngineInstance,
    DrainEngineInstance,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.planner.domain.fleet.added_instances import add_instance
from services.planner.domain.fleet.cluster_orders import is_drained_with_cluster, require_active
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.lost_instances import retire_lost
from services.planner.domain.fleet.moves.move_orders import held_by_rollout
from services.planner.domain.fleet.order_validation import joined, known_instance, require_not_retired
from services.planner.domain.fleet.placement.assignment_orders import (
    LEFT_OBJECTS,
    dedicate_instance,
    require_nobody_pinned,
    require_served,
)
from services.planner.domain.fleet.pools.pools import without_leaving
from services.planner.domain.fleet.rows import (
    ROOM_AGAIN,
    EngineInstanceRow,
    InstanceState,
    Move,
    Refused,
)

ORDERED_STATES: Mapping[type, InstanceState] = {
    DrainEngineInstance: "draining",
    UndrainEngineInstance: "accepting",
    RetireEngineInstance: "retired",
}
InstanceOrder = (
    AddEngineInstance | DrainEngineInstance | UndrainEngineInstance | RetireEngineInstance | DedicateEngineInstance
)


def change_instance(given: InstanceOrder, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """The message for operators, and the fleet afterwards: the very same if nothing has changed. Raises Refused."""
    known = fleet.find_instance(given.id)
    if known is not None and at <= known.ordered_at:
        return f"a newer order, of {known.ordered_at.isoformat()}, has changed the instance", fleet
    if isinstance(given, AddEngineInstance):
        return add_instance(given, fleet, at)
    known = known_instance(given.id, fleet)
    if isinstance(given, DedicateEngineInstance):
        return dedicate_instance(given, known, fleet, at)
    if isinstance(given, RetireEngineInstance) and given.is_lost:
        return retire_lost(known, fleet, at)
    return _in_state(known, ORDERED_STATES[type(given)], fleet, at)


def _in_state(known: EngineInstanceRow, wanted: InstanceState, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    """To another state."""
    if wanted == "draining" and known.is_leaving:
        after = without_leaving(known.id, fleet)
        if is_drained_with_cluster(known, fleet):
            after = after.with_instance(replace(known, ordered_at=at))
        return f"it is {known.state}" if after is fleet else _next_order(known, wanted, fleet), after
    if known.state == wanted:
        return f"it is {known.state}", fleet
    require_not_retired(known)
    if known.is_unready and wanted != "retired":
        raise Refused(f"engine instance {known.id} is {known.state}: only 'gitopsctl engines retire' gives it up")
    if wanted == "accepting":
        require_active(known.engine_cluster, fleet)
    after = fleet.with_instance(replace(known, state=wanted, ordered_at=at, due_at=None, state_message=None))
    if wanted == "retired":
        _require_unneeded(known, fleet)
        _require_empty(known, fleet)
        require_nobody_pinned(known, fleet)
        # Before there is any tenant a fleet may be made anew, in the namespaces that it has.
        require_served(fleet, after, are_others=_may_have_tenants(fleet))
    return _next_order(known, wanted, fleet), after


def _may_have_tenants(fleet: Fleet) -> bool:
    return bool(fleet.uncounted) or any(held.tenants for held in fleet.holdings.values())


def _next_order(known: EngineInstanceRow, wanted: InstanceState, fleet: Fleet) -> str:
    """What an operator has to order next, who gives an instance up; empty if nothing."""
    if wanted != "draining":
        return ""
    if tenants := fleet.holding(known.id).tenants:
        advice = f"its tenants stay on it ({tenants}) until 'gitopsctl engines rebalance' moves them"
    else:
        advice = f"no tenant is on it: 'gitopsctl engines retire {known.id}' gives it up"
    return joined(advice, _lack_of_others(known, fleet))


def _lack_of_others(known: EngineInstanceRow, fleet: Fleet) -> str:
    """That no other instance of its ring, and for the same workspaces, accepts tenants; empty if one does."""
    others = (row for row in fleet.instances.values() if row.id != known.id and row.ring == known.ring)
    candidates = [fleet.candidate(row) for row in others if row.dedicated_to == known.dedicated_to]
    if any(each.accepting and not each.is_down for each in candidates):
        return ""
    who = f"instance of workspace {known.dedicated_to}" if known.dedicated_to else "shared instance"
    return f"no {who} of ring {known.ring} accepts tenants now"


def _require_unneeded(known: EngineInstanceRow, fleet: Fleet) -> None:
    """The tenants of a ring that is being rolled out may have to go back to one that is empty by now, and works."""
    if known.id in held_by_rollout(fleet) and not (known.is_unready or fleet.is_out_of_reach(known.id)):
        raise Refused(
            f"ring {known.ring} is being rolled out, which gives its old instances up when all is well: "
            "'gitopsctl engines rollout status' shows how far that is"
        )


def _require_empty(known: EngineInstanceRow, fleet: Fleet) -> None:
    if fleet.is_rebuilt:
        raise Refused(
            f"the database is being rebuilt: what engine instance {known.id} holds besides its rows is known when "
            "'gitopsctl rebuild sweep' has ended that"
        )
    held = fleet.holding(known.id)
    moves = [move for move in fleet.moves.values() if not move.is_over and known.id in (move.source, move.target)]
    if held.tenants > len(moves):
        raise Refused(
            f"engine instance {known.id} still has tenants: {held.tenants}; 'gitopsctl engines drain {known.id}' and "
            "then 'gitopsctl engines rebalance' move them"
        )
    if moves:
        raise Refused(_named(moves, known))
    if held.objects:
        raise Refused(f"engine instance {known.id} {LEFT_OBJECTS}")


def _named(moves: Sequence[Move], known: EngineInstanceRow) -> str:
    """Moves that an instance takes part in; of those that wait until it is back, that they do."""
    fenced = [move for move in moves if (move.source, move.path) == (known.id, "fenced")]
    first = (fenced or moves)[0]
    summary = (
        f"engine instance {known.id} takes part in moves: {len(moves)}, such as that of tenant "
        f"{first.workspace}/{first.namespace} from {first.source} to {first.target}: {first.step}"
    )
    if not fenced:
        return summary
    return f"{summary}; it has left, and {len(fenced)} of them wait until the instance can be reached"


def with_states(fleet: Fleet) -> Fleet:
    """With each instance in the state that follows from what is on it, as far as that was counted."""
    for row in tuple(row for row in fleet.instances.values() if row.id not in fleet.uncounted):
        state = _state_of(row, fleet.holding(row.id))
        if state != row.state:
            fleet = fleet.with_instance(replace(row, state=state))
    return fleet


def _state_of(row: EngineInstanceRow, held: Holding) -> InstanceState:
    """One that is to be retired is drained once no tenant is left on it; one that has no room for more is full."""
    if row.is_leaving:
        return "draining" if held.tenants else "drained"
    if row.state == "accepting" and held.deployments >= row.capacity:
        return "full"
    if row.state == "full" and held.deployments < row.capacity * ROOM_AGAIN:
        return "accepting"
    return row.state
