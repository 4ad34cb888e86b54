"""Decides on orders about single engine instances, and which states follow from what is on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from services.common.messages import (
    RINGS,
    AddEngineInstance,
    DedicateEngineInstance,
    DrainEngineInstance,
    InstallationPhase,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.kinds.shared.text import MAX_LABEL
from services.planner.domain.fleet.cluster_orders import is_drained_with_cluster, require_active
from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.lost_instances import retire_lost
from services.planner.domain.fleet.moves.move_orders import held_by_rollout
from services.planner.domain.fleet.order_validation import (
    known_cluster,
    known_instance,
    require_label,
    require_not_retired,
    require_one_of,
    require_version,
)
from services.planner.domain.fleet.placement.assignment_orders import (
    LEFT_OBJECTS,
    dedicate_instance,
    require_fit,
    require_nobody_pinned,
    require_served,
)
from services.planner.domain.fleet.pools.pools import MOST_CAPACITY, without_leaving
from services.planner.domain.fleet.rows import (
    CLASSES,
    ROOM_AGAIN,
    EngineInstanceRow,
    InstanceState,
    Move,
    Refused,
)

ADDED_AS = ("engine_cluster", "namespace", "engine", "engine_class", "dedicated_to", "ring", "capacity")
"""What an instance was added with: the order and the row have it under the same names."""
INSTALLED_AS = ("wanted_version", "profile")
"""Likewise, of one that is installed by us; the row has no value where the order has an empty one."""
DEDICATED_AS = ("engine_class", "dedicated_to")
"""Likewise, what an order to dedicate it changes."""
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
        return _add_instance(given, fleet, at)
    known = known_instance(given.id, fleet)
    if isinstance(given, DedicateEngineInstance):
        return dedicate_instance(given, known, fleet, at)
    if isinstance(given, RetireEngineInstance) and given.is_lost:
        return retire_lost(known, fleet, at)
    return _in_state(known, ORDERED_STATES[type(given)], fleet, at)


def _add_instance(added: AddEngineInstance, fleet: Fleet, at: datetime) -> tuple[str, Fleet]:
    known = fleet.find_instance(added.id)
    if known is not None:
        _require_same(added, known)
        return "it is known", fleet
    _require_valid(added, fleet)
    cluster = known_cluster(added.engine_cluster, fleet)
    require_active(cluster.id, fleet)
    _require_free(added, fleet)
    named = {name: getattr(added, name) for name in ADDED_AS}
    row = EngineInstanceRow(
        id=added.id,
        region=cluster.region,
        state="provisioning",
        created_at=at,
        ordered_at=at,
        wanted_version=added.wanted_version or None,
        profile=added.profile or None,
        **named,
    )
    require_fit(row, fleet)
    first = "it is installed first" if added.wanted_version else "it takes tenants once its agent tells that it works"
    return f"{first}: 'gitopsctl engines show {row.id}' shows how far that is", fleet.with_instance(row)


def _require_same(added: AddEngineInstance, known: EngineInstanceRow) -> None:
    if known.is_retired:
        raise Refused(f"engine instance {known.id} is retired, and its id is not given out again: give another")
    for name in (*ADDED_AS, *INSTALLED_AS):
        before, wanted = getattr(known, name) or "", getattr(added, name)
        if before != wanted:
            raise Refused(
                f"{name.replace('_', ' ')} of engine instance {known.id} is '{before}', not '{wanted}'"
                f"{_advice(name, known)}"
            )


def _advice(name: str, known: EngineInstanceRow) -> str:
    """What to do if an instance was added with another value of ``name``."""
    if name in DEDICATED_AS:
        return f": 'gitopsctl engines dedicate {known.id}' changes that"
    return f", for good: add another one, and 'gitopsctl engines drain {known.id}' if that takes its place"


def _require_valid(added: AddEngineInstance, fleet: Fleet) -> None:
    require_label("an engine instance's id", added.id)
    require_label("a namespace", added.namespace)
    require_one_of("engine", added.engine, fleet.engines)
    require_one_of("class", added.engine_class, CLASSES)
    require_one_of("ring", added.ring, RINGS)
    if added.engine_class == "dedicated" and not added.dedicated_to:
        raise Refused("an engine instance of class dedicated needs a workspace: give it as --dedicated-to")
    if added.engine_class == "shared" and added.dedicated_to:
        raise Refused(
            "an engine instance of class shared is dedicated to no workspace: give '--class dedicated' with "
            f"'--dedicated-to {added.dedicated_to[:MAX_LABEL]}', or neither"
        )
    if not 1 <= added.capacity <= MOST_CAPACITY:
        raise Refused(f"a capacity is between 1 and {MOST_CAPACITY} Applications, not {added.capacity}")
    _require_installable(added, fleet)


def _require_installable(added: AddEngineInstance, fleet: Fleet) -> None:
    if added.profile and not added.wanted_version:
        raise Refused("a profile is of an instance that is installed with a version: add '--version'")
    if added.wanted_version:
        require_version(added.engine, added.wanted_version, fleet)
    if added.profile:
        require_label("a profile", added.profile)


def _require_free(added: AddEngineInstance, fleet: Fleet) -> None:
    """No other instance has its namespace, and no provisioner is still to delete it.

    Two instances would undo what each other does there. A provisioner deletes the namespace of a retired instance as
    soon as no tenant has anything in it, whoever was given it meanwhile.
    """
    place = (added.engine_cluster, added.namespace)
    where = f"namespace {added.namespace} of engine cluster {added.engine_cluster}"
    for other in fleet.instances.values():
        if (other.engine_cluster, other.namespace) != place:
            continue
        if not other.is_retired:
            raise Refused(f"{where} is engine instance {other.id}'s: give another --namespace")
        if not _is_removed(other, fleet):
            raise Refused(
                f"{where} was engine instance {other.id}'s, which is retired, and its provisioner is still to delete "
                f"the namespace: wait until 'gitopsctl engines show {other.id}' shows that its installation is "
                f"{InstallationPhase.REMOVED.value}, or give another --namespace"
            )


def _is_removed(retired: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether no provisioner deletes its namespace any more: none has made it, or one has reported that it is gone.

    The report of an installation is stored for ever. If there is none, as after a rebuild of the database, provisioners
    report again when they start.
    """
    found = fleet.installations.get(retired.id)
    return retired.wanted_version is None or (found is not None and found.phase == InstallationPhase.REMOVED.value)


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
        return f"its tenants stay on it ({tenants}) until 'gitopsctl engines rebalance' moves them"
    return f"no tenant is on it: 'gitopsctl engines retire {known.id}' gives it up"


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
