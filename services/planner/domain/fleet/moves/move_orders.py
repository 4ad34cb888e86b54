"""Decides on orders to move a tenant, and which ordered moves begin. Pure.

An order changes a row. The planner that has the tenant takes the steps (``moves.py``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from services.common.messages import CancelMove, FleetOrder, MoveTenant
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.pace import STALLED_AFTER
from services.planner.domain.fleet.order_validation import known_instance, moving_in_words, state_in_words
from services.planner.domain.fleet.placement.assignment_orders import require_unpinned
from services.planner.domain.fleet.placement.parts import refusal_of_cluster, refusal_of_part
from services.planner.domain.fleet.rollouts.ring_instances import runs
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL
from services.planner.domain.fleet.rows import EngineInstanceRow, Move, Refused
from services.planner.rows.tenants import TenantName, tenant_of_part


def move_tenant(ordered: MoveTenant, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """A message about the order, and the fleet after it: the same object if nothing has changed. Raises Refused."""
    tenant = _find_tenant(ordered, fleet)
    current = fleet.moves.get(tenant.id)
    if (
        current is not None
        and fleet.is_on_its_way(tenant)
        and current.target == ordered.target
        and not current.is_cancelled
    ):
        return f"it is being moved there: {current.step}", fleet
    require_unmoved(ordered, tenant, fleet)
    if tenant.engine_instance_id == ordered.target:
        return "it is there", fleet
    move = new_move(ordered, order, fleet)
    return "", fleet.with_move(move).with_coming(move.target, tenant)


def require_unmoved(ordered: MoveTenant, tenant: TenantHere, fleet: Fleet) -> None:
    """Raises Refused if the tenant, or another part of it, is being moved."""
    if (current := fleet.moves.get(tenant.id)) is not None:
        raise Refused(moving_in_words(ordered.id, current))


def new_move(ordered: MoveTenant, order: FleetOrder, fleet: Fleet) -> Move:
    """The row of an ordered move, in place of any other move of the tenant. Raises Refused."""
    move = new_move_beyond_room(ordered, order, fleet)
    target = fleet.instances[move.target]
    if target.state == "full":
        raise Refused(state_in_words(target))
    require_room(target, _find_tenant(ordered, fleet), fleet)
    return move


def new_move_beyond_room(ordered: MoveTenant, order: FleetOrder, fleet: Fleet) -> Move:
    """The row of an ordered move to a target that may have no room for the tenant. Raises Refused.

    An evacuation needs it if no instance has room, and has a limit of its own (``remediation/evacuation_targets.py``).
    """
    tenant, target = _find_tenant(ordered, fleet), known_instance(ordered.target, fleet)
    source = fleet.instances[tenant.engine_instance_id]
    require_unpinned(ordered.tenant, fleet)
    _require_suitable(target, source, ordered, fleet)
    _require_working(target, fleet)
    _require_movable(tenant, source, target)
    require_apart(ordered.tenant, tenant, target.id, fleet)
    require_left_to_rollout(source, target, fleet)
    return ordered_move(order.id, ordered.tenant, tenant, target.id, order.actor, order.ordered_at)


def cancel_move(ordered: CancelMove, fleet: Fleet) -> tuple[str, Fleet]:
    """Decide on an order that a move goes back.

    Returns a message about the order, and the fleet after it: the same object if the tenant is not being moved, or goes
    back already. Raises Refused if there is no such tenant, or if the source has begun to give it up.
    """
    tenant = _find_tenant(ordered, fleet)
    current = fleet.moves.get(tenant.id)
    if current is None:
        return "it is not being moved", fleet
    if not fleet.is_on_its_way(tenant):
        return f"it is not being moved; what the tenant has on {current.holder} is, to {current.target}", fleet
    if current.step == "cancelling" or current.is_cancelled:
        return "it goes back", fleet
    if not current.is_cancellable:
        raise Refused(
            f"tenant {ordered.id} is {current.target}'s from here on: {current.step}; wait until it is there, and "
            "'gitopsctl engines move' it back"
        )
    return "", fleet.with_move(replace(current, is_cancelled=True, message="an operator has cancelled it"))


def begin_moves(fleet: Fleet, now: datetime, at_once: int) -> Fleet:
    """The fleet with pointless moves ended, and with ordered moves begun for which there are places.

    Moves begin in the order of their rows. A move does not begin while its target is down, or while its evacuation is
    suspended. A move that only waits until its source is back takes no place: otherwise many such moves would keep
    others from their targets. A move of an evacuation takes a place of its target only, and gives way to nobody.

    Args:
        fleet: all rows.
        now: the time.
        at_once: how many moves an instance has places for.
    """
    fleet = fleet.with_moves(_end_if_pointless(move, fleet, now) for move in fleet.moves.values())
    places = _Places(fleet, now, at_once)
    begun: list[Move] = []
    for move in fleet.moves.values():
        waits = fleet.is_down(move.target) or fleet.is_held_back(move)
        if move.step == "ordered" and not waits and places.are_free(move):
            begun.append(replace(move, step="reserved", step_since=now, due_at=now))
            places.add(begun[-1])
    return fleet.with_moves(begun)


class _Places:
    """Counts the moves that each instance has under way."""

    def __init__(self, fleet: Fleet, now: datetime, at_once: int) -> None:
        self._now, self._at_once = now, at_once
        self._paced = at_once if fleet.pace is None else fleet.pace.places
        self._taken, self._in_motion = Counter[str](), Counter[str]()
        for move in fleet.moves.values():
            if _is_in_place(move, fleet):
                self.add(move)

    def add(self, move: Move) -> None:
        """Count a move that is under way, or begins."""
        self._taken.update(_instances_taken(move))
        if self._now - move.step_since < STALLED_AFTER:
            self._in_motion.update(_instances_taken(move))

    def are_free(self, move: Move) -> bool:
        """Whether each instance that a move takes a place of has one left.

        While changes of tenants wait, there are fewer places (``pace.py``), except for evacuations.
        """
        gives_way = move.path == "whole"
        return all(
            self._taken[each] < self._at_once and not (gives_way and self._in_motion[each] >= self._paced)
            for each in _instances_taken(move)
        )


def _is_in_place(move: Move, fleet: Fleet) -> bool:
    """Whether a move takes places: it is under way, and does not only wait for its source to be within reach again."""
    is_source_lost = move.step == "withdrawing" and fleet.is_out_of_reach(move.source)
    return move.step != "ordered" and not (move.is_over or move.is_fencing or is_source_lost)


def _instances_taken(move: Move) -> tuple[str, ...]:
    """Ids of the instances of which a move takes a place; its source only if the move waits for that."""
    return (move.source, move.target) if move.path == "whole" else (move.target,)


def _find_tenant(ordered: MoveTenant | CancelMove, fleet: Fleet) -> TenantHere:
    tenant = fleet.tenants.get(ordered.tenant)
    if tenant is None:
        raise Refused(f"there is no tenant '{ordered.id}'")
    return tenant


def _require_suitable(target: EngineInstanceRow, source: EngineInstanceRow, ordered: MoveTenant, fleet: Fleet) -> None:
    """Raises Refused if the target takes no tenants, runs another engine, or may not have this tenant.

    Whether it has room is another rule. A tenant that is assigned to no region stays in the region of its source.
    """
    if not target.is_taking:
        raise Refused(state_in_words(target))
    if source.engine != target.engine:
        raise Refused(
            f"engine of engine instance {target.id} is '{target.engine}', and the tenant's is '{source.engine}'"
        )
    if refusal := fleet.rules.affinity(ordered.workspace, region=source.region).refusal(target):
        raise Refused(refusal)


def _require_working(target: EngineInstanceRow, fleet: Fleet) -> None:
    if fleet.is_down(target.id):
        raise Refused(fleet.down_in_words(target.id))
    if target.id in fleet.cordoned:
        raise Refused(f"engine instance {target.id} is cordoned: {fleet.cordoned[target.id]}")


def _require_movable(tenant: TenantHere, source: EngineInstanceRow, target: EngineInstanceRow) -> None:
    if source.engine_cluster != target.engine_cluster and tenant.of_engine_cluster:
        raise Refused(
            f"engine instance {target.id} is in cluster {target.engine_cluster}, and {tenant.of_engine_cluster} "
            f"Applications of the tenant are deployed to that of its own, {source.engine_cluster}: they name no "
            "environment"
        )
    if tenant.is_split and (refusal := refusal_of_cluster(source, target)):
        raise Refused(refusal)


def require_apart(name: TenantName, tenant: TenantHere, target: str, fleet: Fleet) -> None:
    """Raises Refused if the target has a part of the tenant already, unless it is the tenant's own instance."""
    if refusal := refusal_of_part(target, fleet.parts_of(tenant), _own_instance(name, fleet), tenant_of_part(name)):
        raise Refused(refusal)


def _own_instance(part: TenantName, fleet: Fleet) -> str:
    own = fleet.tenants.rows.get(tenant_of_part(part))  # if it is the target, it was loaded with that
    return own.engine_instance_id if own is not None else ""


def require_room(target: EngineInstanceRow, tenant: TenantHere, fleet: Fleet) -> None:
    """Raises Refused if the target has no room for the tenant's deployments."""
    free = target.capacity - fleet.holding(target.id).deployments
    if tenant.deployments > free:
        raise Refused(
            f"engine instance {target.id} has room for {max(free, 0)} Applications, and the tenant has "
            f"{tenant.deployments}; 'gitopsctl engines list' shows where there is more"
        )


def require_left_to_rollout(source: EngineInstanceRow, target: EngineInstanceRow, fleet: Fleet) -> None:
    """Raises Refused if the move would work against the rollout that is under way.

    Only the rollout brings tenants into its ring, out of it, or between its old and its new instances. Others may move
    tenants among the old instances, including those that have joined the ring since, and among the new ones: the
    rollout draws tenants by lot, wherever they are. From an instance that is down tenants may go anywhere.
    """
    rollout = fleet.rollout
    if rollout is None or fleet.is_down(source.id):
        return
    places, in_ring = {source.id, target.id}, held_by_rollout(fleet)
    if in_ring.isdisjoint(places):
        return
    joined = {each for each in in_ring - rollout.target_ids if not runs(fleet.instances[each], rollout, fleet)}
    if places <= rollout.source_ids | joined or places <= rollout.target_ids:
        return
    raise Refused(rolled_out_in_words(rollout.ring))


def rolled_out_in_words(ring: str) -> str:
    """Why nobody but a rollout moves tenants of its ring, in words for operators."""
    return f"ring {ring} is being rolled out, which moves its tenants: 'gitopsctl engines rollout status'"


def on_trial(fleet: Fleet) -> frozenset[str]:
    """Ids of instances of a release that no gate has let into their ring: tenants go elsewhere if they can.

    In the ring of the rollout these are the new instances until its old ones drain. From the last stage on the old ones
    are closed, but they are not on trial.
    """
    rollout = fleet.rollout
    if rollout is None or rollout.is_over:
        return fleet.closed
    closed = fleet.closed - held_by_rollout(fleet) if rollout.is_on_new else fleet.closed
    return closed if rollout.step in FINAL else closed | rollout.target_ids


def held_by_rollout(fleet: Fleet) -> frozenset[str]:
    """Ids of the instances in the ring of the rollout, whose tenants only the rollout moves."""
    rollout = fleet.rollout
    if rollout is None or rollout.is_over or not rollout.ring:
        return frozenset()
    return frozenset(each.id for each in fleet.instances.values() if each.ring == rollout.ring)


def ordered_move(order: UUID, name: TenantName, tenant: TenantHere, target: str, actor: str, at: datetime) -> Move:
    """The row of a move that is ordered, under this id."""
    workspace, namespace = tenant_of_part(name)
    return Move(
        id=order,
        tenant_id=tenant.id,
        workspace=workspace,
        namespace=namespace,
        partition=tenant.partition,
        source=tenant.engine_instance_id,
        target=target,
        step="ordered",
        is_cancelled=False,
        reported="{}",
        message="",
        actor=actor,
        ordered_at=at,
        step_since=at,
        due_at=None,
    )


def _end_if_pointless(move: Move, fleet: Fleet, now: datetime) -> Move:
    """The move, ended or on its way back if it is pointless.

    It is over if its tenant is gone. It goes back, if it still can, if its target takes no tenants or is down. A move
    that has not begun waits for a target that is down.
    """
    if move.tenant_id in fleet.gone:
        return replace(move, step="cancelled", step_since=now, message="the tenant is gone", due_at=None)
    target = fleet.instances[move.target]
    if move.is_cancellable and not move.is_cancelled and (target.is_leaving or target.is_retired):
        move = replace(move, is_cancelled=True, message=f"engine instance {target.id} is {target.state}")
    if move.is_cancellable and not move.is_cancelled and move.step != "ordered" and fleet.is_down(target.id):
        move = replace(move, is_cancelled=True, message=fleet.down_in_words(target.id))
    if move.step == "ordered" and move.is_cancelled:
        return replace(move, step="cancelled", step_since=now)
    return move
