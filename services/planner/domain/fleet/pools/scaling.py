"""How many instances a pool has, and which tenants leave one that carries too much. Pure; called by the clock.

It gives orders, as operators do, and only such as the rules accept (``orders.py``): each is an audit row.

- A pool has as many instances as carry its load at :data:`TARGET` of their capacity, and its spare ones, within its
  limits. It grows at once. It shrinks by one instance at a time, when fewer would have been enough for as long as
  operators lay down, at :data:`SLACK` of their capacity: so it does not grow again for the next tenant.
- The emptiest is given up: drained, its tenants moved, then retired. One with a tenant that was moved within a day is
  not: no tenant is moved twice a day.
- An instance that remediation gives up counts no more: another is added before its tenants leave.
- An instance that carries more than :data:`OVERLOAD` of its capacity for long gives away the fewest tenants that bring
  it to :data:`TARGET`, each to one that then carries no more than that itself. So none comes back.

Nothing of that happens while the fleet is rearranged by somebody else, but growing: a rollout, an evacuation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import NAMESPACE_OID, uuid5

from services.common.messages import (
    AddEngineInstance,
    DrainEngineInstance,
    FleetOrder,
    MoveTenant,
    Order,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.planner.domain.fleet.orders import decide_order
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, Patience, PoolKey, namespace_of
from services.planner.domain.fleet.rows import EngineInstanceRow, Fleet, TenantHere
from services.planner.rows import DEFAULT_ENGINE, TenantName

TARGET, SLACK, OVERLOAD = 0.7, 0.55, 0.85
"""Shares of the capacity."""
ACTOR = "planner"
SERVING = ("accepting", "full")


@dataclass(frozen=True, slots=True)
class Scaling:
    """What follows."""

    orders: tuple[FleetOrder, ...]
    pools: tuple[EnginePool, ...]
    """Those that have changed."""
    overloads: tuple[Overload, ...]
    """Likewise."""
    overloads_gone: tuple[str, ...]
    """Ids of instances that are overloaded no more."""


def pooled_instances(fleet: Fleet) -> list[str]:
    """Ids of the instances that are in a pool."""
    return [row.id for key in fleet.pools for row in _members(key, fleet)]


def needs_tenants(fleet: Fleet, burdens: Burdens, now: datetime) -> bool:
    """Whether tenants of pools may have to move, so that these have to be known."""
    is_due = any(each.relieved_at <= now for each in burdens.overloads.values())
    return is_due or any(
        pool.leaving is not None or (pool.shrinks_at is not None and pool.shrinks_at <= now)
        for pool in fleet.pools.values()
    )


def reason_to_hold(fleet: Fleet) -> str:
    """Why pools move no tenant now; empty if they may. Whatever else rearranges the fleet belongs here."""
    fled = sorted(move.source for move in fleet.moves.values() if not move.is_over and fleet.is_down(move.source))
    if fleet.rollout is not None and not fleet.rollout.is_over:
        return "a rollout is under way"
    return f"tenants leave {fled[0]}, which is down" if fled else ""


def scale(fleet: Fleet, burdens: Burdens, now: datetime, patience: Patience, held: str = "") -> Scaling:
    """The orders that bring all pools to their size and relieve their instances.

    Args:
        fleet: all rows, and what is on :func:`pooled_instances`; their tenants, too, if :func:`needs_tenants`.
        burdens: what was so before.
        now: the time.
        patience: of operators.
        held: why no tenant may be moved now; empty if they may.
    """
    scaler = _Scaler(fleet, burdens, now)
    pools = [_sized(pool, scaler, patience, held) for pool in fleet.pools.values()]
    overloads = _overloads(scaler, patience, held)
    return Scaling(
        tuple(scaler.orders),
        tuple(pool for pool in pools if pool != fleet.pools[pool.key]),
        tuple(each for each in overloads.values() if each != burdens.overloads.get(each.engine_instance_id)),
        tuple(known for known in burdens.overloads if known not in overloads),
    )


def wanted_instances(load: int, pool: EnginePool, share: float = TARGET) -> int:
    """How many carry ``load`` Applications, each ``share`` of its capacity, within the pool's limits."""
    needed = math.ceil(load / (share * pool.capacity)) + pool.spare
    return min(max(needed, pool.minimum), pool.maximum)


class _Scaler:
    """The fleet while orders are given in thought: each is tried by the rules, and kept if they accept it."""

    def __init__(self, fleet: Fleet, burdens: Burdens, now: datetime) -> None:
        self.fleet, self.burdens, self.now = fleet, burdens, now
        self.orders: list[FleetOrder] = []
        self.refusal = ""
        """The rule that the newest order would have broken."""
        self._departing = Counter[str]()
        """Applications that instances still have of tenants which leave them."""
        for tenant in fleet.tenants.values():
            if fleet.destination_of(tenant) != tenant.engine_instance_id:
                self._departing[tenant.engine_instance_id] += tenant.deployments

    def give(self, order: Order) -> bool:
        """Returns whether it is accepted."""
        identity = uuid5(NAMESPACE_OID, f"{type(order).__name__} {order.id} {self.now.isoformat()}")
        given = FleetOrder(identity, ACTOR, self.now, order)
        decision = decide_order(given, self.fleet)
        self.refusal = decision.message if decision.outcome == "refused" else ""
        if decision.outcome != "accepted":
            return False
        self.orders.append(given)
        self.fleet = decision.fleet
        return True

    def members(self, key: PoolKey) -> list[EngineInstanceRow]:
        """Instances of a pool, as they are by now."""
        return _members(key, self.fleet)

    def staying(self, key: PoolKey) -> list[EngineInstanceRow]:
        """Those that tenants may be moved to."""
        return [row for row in self.members(key) if row.state == "accepting" and not self.fleet.is_down(row.id)]

    def load(self, instance: str) -> int:
        """Applications that it will carry once all moves are over."""
        return self.fleet.holding(instance).deployments - self._departing[instance]

    def is_moving(self, tenant: TenantHere) -> bool:
        """Whether it is on its way."""
        return tenant.id in self.fleet.moves and not self.fleet.moves[tenant.id].is_over

    def on(self, instance: str) -> list[tuple[TenantName, TenantHere]]:
        """Tenants that are on it and not on their way, the largest first."""
        found = (
            (name, tenant)
            for name, tenant in self.fleet.tenants.items()
            if tenant.engine_instance_id == instance and not self.is_moving(tenant)
        )
        return sorted(found, key=lambda each: (-each[1].deployments, each[1].id))

    def move(self, name: TenantName, tenant: TenantHere, targets: Iterable[EngineInstanceRow], share: float) -> bool:
        """To the emptiest that then carries no more than ``share`` of its capacity; returns whether it goes."""
        fitting = [
            row
            for row in targets
            if row.id != tenant.engine_instance_id and self.load(row.id) + tenant.deployments <= share * row.capacity
        ]
        ordered = sorted(fitting, key=lambda row: (self.load(row.id) / row.capacity, row.id))
        if not any(self.give(MoveTenant(*name, row.id)) for row in ordered[:1]):
            return False
        self._departing[tenant.engine_instance_id] += tenant.deployments
        return True


def _members(key: PoolKey, fleet: Fleet) -> list[EngineInstanceRow]:
    """Instances of a pool that are not retired, in the order of their ids."""
    found = (
        row
        for row in fleet.instances.values()
        if (row.engine_cluster, row.ring) == key and row.engine_class == "shared" and not row.is_retired
    )
    return sorted(found, key=lambda row: row.id)


def _sized(pool: EnginePool, scaler: _Scaler, patience: Patience, held: str) -> EnginePool:
    """The pool after its instances have been ordered."""
    members = scaler.members(pool.key)
    load = sum(scaler.fleet.holding(row.id).deployments for row in members)
    count = sum(not row.is_leaving and not scaler.fleet.is_given_up(row.id) for row in members)
    wanted = wanted_instances(load, pool)
    if pool.leaving is not None:
        pool = _given_up(pool, scaler, held, is_needed=count < wanted)
        return replace(pool, shrinks_at=None)
    if count < wanted:
        return replace(_grown(pool, scaler, members, wanted - count), shrinks_at=None)
    pool = replace(pool, message=_shortage(pool, load))
    if wanted_instances(load, pool, SLACK) >= count:
        return replace(pool, shrinks_at=None)
    due = pool.shrinks_at or scaler.now + patience.shrink
    return replace(pool, shrinks_at=due) if due > scaler.now or held else _shrunk(pool, scaler, members)


def _shrunk(pool: EnginePool, scaler: _Scaler, members: Iterable[EngineInstanceRow]) -> EnginePool:
    """With one instance that leaves, if one can."""
    leaving = _emptiest(scaler, members)
    if leaving is None or not scaler.give(DrainEngineInstance(leaving)):
        return pool
    return replace(pool, leaving=leaving, shrinks_at=None)


def _shortage(pool: EnginePool, load: int) -> str:
    """What keeps it from what it needs; empty if nothing does."""
    needed = wanted_instances(load, replace(pool, maximum=max(pool.maximum, load + pool.spare + pool.minimum)))
    return f"it needs {needed} instances, and has at most {pool.maximum} (--max)" if needed > pool.maximum else ""


def _grown(pool: EnginePool, scaler: _Scaler, members: Iterable[EngineInstanceRow], lacking: int) -> EnginePool:
    """With instances added; with none while one has failed: the next would fail likewise."""
    failed = next((row for row in members if row.state == "failed"), None)
    if failed is not None:
        return replace(pool, message=f"no instance is added: {failed.id} has failed, {failed.state_message}")
    for _ in range(lacking):
        name = scaler.fleet.next_name(*pool.key)
        wanted = AddEngineInstance(
            id=name,
            engine_cluster=pool.engine_cluster,
            namespace=namespace_of(name),
            engine=DEFAULT_ENGINE,
            engine_class="shared",
            dedicated_to="",
            ring=pool.ring,
            capacity=pool.capacity,
            wanted_version=pool.version,
            profile=pool.profile,
        )
        if not scaler.give(wanted):
            return replace(pool, message=f"no instance is added: {scaler.refusal}")
    return replace(pool, message="")


def _emptiest(scaler: _Scaler, members: Iterable[EngineInstanceRow]) -> str | None:
    """The one to give up: only one that we have installed, and none whose tenants have just come."""
    busy = {
        tenant.engine_instance_id
        for tenant in scaler.fleet.tenants.values()
        if tenant.id in scaler.burdens.moved_of_late or scaler.is_moving(tenant)
    } | {move.target for move in scaler.fleet.moves.values()}
    free = [row for row in members if row.state in SERVING and row.wanted_version and row.id not in busy]
    return min(free, key=lambda row: (scaler.load(row.id), row.id)).id if free else None


def _given_up(pool: EnginePool, scaler: _Scaler, held: str, *, is_needed: bool) -> EnginePool:
    """A step further with the instance that leaves."""
    row = scaler.fleet.instances.get(pool.leaving or "")
    if row is None or not row.is_leaving:
        return replace(pool, leaving=None)
    if is_needed and scaler.give(UndrainEngineInstance(row.id)):
        return replace(pool, leaving=None, message="")
    if row.state == "drained" and scaler.give(RetireEngineInstance(row.id)):
        return replace(pool, leaving=None, message="")
    if held:
        return replace(pool, message=f"{row.id} waits to be given up: {held}")
    left = [
        name for name, tenant in scaler.on(row.id) if not scaler.move(name, tenant, scaler.staying(pool.key), TARGET)
    ]
    if not left:
        return replace(pool, message="")
    why = scaler.refusal or "no other instance of the pool has room for them"
    return replace(pool, message=f"{len(left)} tenants cannot leave {row.id}: {why}")


def _overloads(scaler: _Scaler, patience: Patience, held: str) -> dict[str, Overload]:
    """Instances that are overloaded, after those that have been for long have been relieved."""
    found: dict[str, Overload] = {}
    for key in scaler.fleet.pools:
        for row in scaler.members(key):
            if row.state in SERVING and scaler.load(row.id) > OVERLOAD * row.capacity:
                due = Overload(row.id, scaler.now + patience.overload)
                found[row.id] = scaler.burdens.overloads.get(row.id, due)
                if found[row.id].relieved_at <= scaler.now and not held:
                    _relieve(row, scaler)
                    found[row.id] = due
    return found


def _relieve(row: EngineInstanceRow, scaler: _Scaler) -> None:
    """The fewest tenants that bring it to its target: the smallest that is enough alone, or else the largest first."""
    targets = scaler.staying((row.engine_cluster, row.ring))
    for name, tenant in _candidates(row, scaler):
        if scaler.load(row.id) <= TARGET * row.capacity:
            return
        scaler.move(name, tenant, targets, TARGET)


def _candidates(row: EngineInstanceRow, scaler: _Scaler) -> Iterator[tuple[TenantName, TenantHere]]:
    excess = scaler.load(row.id) - TARGET * row.capacity
    free = [
        each for each in scaler.on(row.id) if each[1].id not in scaler.burdens.moved_of_late and each[1].deployments
    ]
    enough = [each for each in free if each[1].deployments >= excess]
    yield from enough[-1:]
    yield from (each for each in free if each not in enough[-1:])
