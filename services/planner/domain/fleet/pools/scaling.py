"""How many instances a pool has, and which tenants leave an instance that carries too much. Pure; called by the clock.

It gives orders, as operators do, and only such as the rules accept (``orders.py``): each is an audit row. Loads are
those that placement measures (``placement/measured_load.py``), and capacities are each instance's own.

- A pool has instances that carry its load at :data:`TARGET` of their capacities, and its spare ones, within its limits.
  It grows at once. It shrinks by one instance at a time, when the others that serve would have been enough for as long
  as operators lay down, at :data:`SLACK` of their capacities: so it does not grow again for the next tenant.
- The emptiest that the others can do without is given up: drained, its tenants moved, then retired. One with a tenant
  that was moved within a day is not: no tenant is moved twice a day. Nor is one that a tenant is pinned to.
- An instance that remediation gives up counts no more: another is added before its tenants leave. Nor does one that a
  rollout keeps tenants from. One that is not ready, down or closed is no reason to give up one that serves.
- An instance that carries more than :data:`OVERLOAD` of its capacity for long, in a pool or not, gives away the fewest
  tenants that bring it to :data:`TARGET`, each to one that then carries no more than that itself. So none comes back.

Nothing of that happens while the fleet is rearranged by somebody else, but growing: a rollout, an evacuation. Until the
last stage of a rollout of its ring a pool grows by what the old instances carry, as new tenants come to these: the new
ones, which the rollout orders, are no room for them. At the last stage it grows by what the new ones carry, and what it
adds is new. While its engine cluster is drained, or the database is rebuilt, a pool does nothing at all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from services.common.messages import (
    DrainEngineInstance,
    FleetOrder,
    MoveTenant,
    Order,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.planner.domain.fleet.fleet import Fleet, TenantHere
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.orders import decide_own_order
from services.planner.domain.fleet.pools.pool_rows import Burdens, EnginePool, Overload, Patience, PoolKey, order_for
from services.planner.domain.fleet.pools.pool_size import SLACK, is_overloaded, lacking_instances, target_load
from services.planner.domain.fleet.rollouts.rollout_rows import FINAL, Rollout
from services.planner.domain.fleet.rows import HANDED_OVER, EngineInstanceRow
from services.planner.domain.fleet.view import FleetView
from services.planner.rows import TenantName

ACTOR = "planner"
REBUILT = "the database is being rebuilt, and what instances carry is not known yet"


@dataclass(frozen=True, slots=True)
class Scaling:
    """What follows from a look at pools and loads: orders, which are accepted, and rows that are written."""

    orders: tuple[FleetOrder, ...]
    pools: tuple[EnginePool, ...]
    """Those that have changed."""
    overloads: tuple[Overload, ...]
    """Those that are new, or have changed."""
    overloads_gone: tuple[str, ...]
    """Ids of instances that are overloaded no more."""


def has_overloaded(view: FleetView) -> bool:
    """Whether an instance may have to be relieved, by what was measured last."""
    return any(
        is_overloaded(view.load.get(each.id, 0), each.capacity)
        for each in view.instances.values()
        if not (each.leaving or each.unready)
    )


def instances_rearranged(fleet: Fleet, burdens: Burdens, now: datetime, held: str) -> set[str]:
    """Ids of the instances whose tenants have to be known: those among which some may move now, or are under way.

    Args:
        fleet: all rows.
        burdens: what was so before.
        now: the time.
        held: why no tenant may be moved now; empty if they may.
    """
    members = {row.id: pool for pool in fleet.pools.values() for row in _members(pool.key, fleet)}
    found = {move.source for move in fleet.moves.values() if not move.is_over} & members.keys()
    if held:
        return found
    for known, overload in burdens.overloads.items():
        row = fleet.instances[known]
        if overload.relieved_at <= now and is_overloaded(fleet.load.get(known, 0), row.capacity):
            found |= {each.id for each in _alike(row, fleet)}
    return found | {known for known, pool in members.items() if _gives_up(pool, now)}


def _gives_up(pool: EnginePool, now: datetime) -> bool:
    """Whether an instance of it is given up, or may be now."""
    return pool.leaving is not None or (pool.shrinks_at is not None and pool.shrinks_at <= now)


def reason_to_hold(fleet: Fleet) -> str:
    """Why no tenant is moved now; empty if some may be. Whatever else rearranges the fleet belongs here.

    Who has left an instance that is down holds nobody up, though the move is not over before that is back; nor who does
    not leave it for now, as its evacuation is held.
    """
    if fleet.is_rebuilt:
        return REBUILT
    fled = sorted(
        move.source
        for move in fleet.moves.values()
        if not (move.is_over or move.step in HANDED_OVER or fleet.is_held_back(move)) and fleet.is_down(move.source)
    )
    if fleet.rollout is not None and not fleet.rollout.is_over:
        return "a rollout is under way"
    return f"tenants leave {fled[0]}, which is down" if fled else ""


def scale(fleet: Fleet, burdens: Burdens, now: datetime, patience: Patience, held: str = "") -> Scaling:
    """The orders that bring all pools to their size and relieve instances.

    Args:
        fleet: all rows, with the load of all instances; with the tenants of :func:`instances_rearranged`, and what is
            on these.
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


class _Scaler:
    """The fleet while orders are given in thought: each is tried by the rules, and kept if they accept it."""

    def __init__(self, fleet: Fleet, burdens: Burdens, now: datetime) -> None:
        self.fleet, self.burdens, self.now = fleet, burdens, now
        self.orders: list[FleetOrder] = []
        self.refusal = ""
        """The rule that the newest order would have broken."""
        self._load = Counter(fleet.load)
        self._on = defaultdict[str, list[tuple[TenantName, TenantHere]]](list)
        for name, tenant in fleet.tenants.items():
            self._on[tenant.engine_instance_id].append((name, tenant))
            if fleet.destination_of(tenant) != tenant.engine_instance_id:  # its target is measured with it
                self._load[tenant.engine_instance_id] -= tenant.load

    def give(self, order: Order) -> bool:
        """Give an order, if the rules accept it: the fleet is as it leaves it from then on. Returns whether they do."""
        given, decision = decide_own_order(order, ACTOR, self.fleet, self.now)
        self.refusal = decision.message if decision.outcome == "refused" else ""
        if decision.outcome != "accepted":
            return False
        self.orders.append(given)
        self.fleet = decision.fleet
        return True

    def members(self, key: PoolKey) -> list[EngineInstanceRow]:
        """Instances of a pool, as they are by now."""
        return _members(key, self.fleet)

    def is_counted(self, row: EngineInstanceRow, pool: EnginePool) -> bool:
        """Whether its capacity is the pool's: it stays, is ready or will be, and tenants may come to it then.

        One of the release that the pool adds counts though it is closed: the next would be, too, and none be enough.
        """
        is_of_no_use = row.id in self.fleet.closed and self.fleet.release_ordered(row) != pool.release
        return not (row.is_leaving or row.state == "failed" or is_of_no_use or self.fleet.is_given_up(row.id))

    def is_serving(self, row: EngineInstanceRow) -> bool:
        """Whether it is known to do its work, and tenants may come to it."""
        return self.fleet.takes_tenants(row) and row.id not in self.fleet.closed

    def load(self, instance: str) -> int:
        """What it will carry once all moves are over."""
        return self._load[instance]

    def on(self, instance: str) -> list[tuple[TenantName, TenantHere]]:
        """Tenants that are on it and not on their way, the largest first."""
        found = (each for each in self._on[instance] if not is_moving(each[1], self.fleet))
        return sorted(found, key=lambda each: (-each[1].load, each[1].id))

    def move(self, name: TenantName, tenant: TenantHere, targets: Iterable[EngineInstanceRow]) -> bool:
        """Order a tenant to the emptiest that may have it, and is not beyond its target load then.

        To another engine cluster only if none of its own takes it. Returns whether one does.
        """
        source = self.fleet.instances[tenant.engine_instance_id]
        fitting = [
            row
            for row in targets
            if row.id != source.id
            and row.state == "accepting"
            and self.is_serving(row)
            and self.load(row.id) + tenant.load <= target_load(row.capacity)
        ]
        fitting.sort(
            key=lambda row: (row.engine_cluster != source.engine_cluster, self.load(row.id) / row.capacity, row.id)
        )
        taken = next((row for row in fitting if self.give(MoveTenant(*name, row.id))), None)
        if taken is None:
            return False
        self._load[source.id] -= tenant.load
        self._load[taken.id] += tenant.load
        return True


def _members(key: PoolKey, fleet: Fleet) -> list[EngineInstanceRow]:
    """Instances of a pool that are not retired, in the order of their ids."""
    found = (
        row
        for row in fleet.instances.values()
        if (row.engine_cluster, row.ring) == key and row.engine_class == "shared" and not row.is_retired
    )
    return sorted(found, key=lambda row: row.id)


def _alike(row: EngineInstanceRow, fleet: Fleet) -> list[EngineInstanceRow]:
    """Instances in service that tenants of this one may be moved to, itself included.

    Of the same ring: each gets its versions at its time.
    """

    def sort_of(each: EngineInstanceRow) -> tuple[str, ...]:
        return (each.engine, each.region, each.ring, each.engine_class, each.dedicated_to)

    return [each for each in fleet.instances.values() if each.is_in_service and sort_of(each) == sort_of(row)]


def _sized(pool: EnginePool, scaler: _Scaler, patience: Patience, held: str) -> EnginePool:
    """The pool after its instances have been ordered."""
    if (why := _reason_to_rest(pool, scaler.fleet)) is not None:
        return replace(pool, shrinks_at=None, message=why)
    members, adding = _sized_by(pool, scaler), _as_it_adds(pool, scaler.fleet)
    load = sum(scaler.load(row.id) for row in members)
    counted = [row.capacity for row in members if scaler.is_counted(row, adding)]
    lacking = lacking_instances(load, pool, len(counted), sum(counted))
    if pool.leaving is not None:
        pool = _given_up(pool, scaler, held, is_needed=lacking > 0)
        return replace(pool, shrinks_at=None)
    if (added := min(lacking, pool.maximum - len(counted))) > 0:
        return replace(pool, message=_grow(adding, scaler, members, added), shrinks_at=None)
    needed = len(counted) + lacking
    pool = replace(
        pool, message=f"it needs {needed} instances, and has at most {pool.maximum} (--max)" if lacking else ""
    )
    is_rolled_out = _rollout_of(pool, scaler.fleet) is not None  # the ring has old instances beside new ones
    dispensable = [] if is_rolled_out else _dispensable(pool, scaler, members, load)
    if not dispensable:
        return replace(pool, shrinks_at=None)
    if held or not _gives_up(pool, scaler.now):
        return replace(pool, shrinks_at=pool.shrinks_at or scaler.now + patience.shrink)
    return _shrunk(pool, scaler, dispensable)


def _reason_to_rest(pool: EnginePool, fleet: Fleet) -> str | None:
    """Why nothing is done, as operators are told; empty while the cluster is drained: they know. None: all is done.

    In a rebuild there are rows of what has gone since, and none yet of what came later: loads are too high, or too low.
    """
    if fleet.is_rebuilt:
        return f"it neither grows nor shrinks: {REBUILT}"
    return None if fleet.clusters[pool.engine_cluster].state == "active" else ""


def _rollout_of(pool: EnginePool, fleet: Fleet) -> Rollout | None:
    """The rollout that is at a pool's ring now."""
    rollout = fleet.rollout
    return None if rollout is None or rollout.is_over or rollout.ring != pool.ring else rollout


def _as_it_adds(pool: EnginePool, fleet: Fleet) -> EnginePool:
    """The pool with the release of what it adds: that of a rollout, once new tenants of its ring come to that."""
    rollout = _rollout_of(pool, fleet)
    return pool.with_release(rollout.release) if rollout is not None and rollout.is_on_new else pool


def _sized_by(pool: EnginePool, scaler: _Scaler) -> list[EngineInstanceRow]:
    """The instances by whose load and capacities a pool grows: all, or those of a rollout that take all new tenants.

    All when others leave: the old ones once they are given up, or the new ones as the ring goes back; who stays is to
    carry what is on those yet. They are told apart by what they were ordered with: so a pool counts what it has added.
    """
    fleet, members = scaler.fleet, scaler.members(pool.key)
    rollout = _rollout_of(pool, fleet)
    if rollout is None or rollout.step in ("reverting", *FINAL):
        return members
    return [row for row in members if (fleet.release_ordered(row) == rollout.release) == rollout.is_on_new]


def _dispensable(
    pool: EnginePool, scaler: _Scaler, members: Iterable[EngineInstanceRow], load: int
) -> list[EngineInstanceRow]:
    """Instances that work, that we have installed, and without which the others that serve are enough: without any one.

    None that a tenant is pinned to, also one that is still to come: it could not be retired.
    """
    working = [row for row in members if scaler.fleet.takes_tenants(row)]
    serving = {row.id: row.capacity for row in working if scaler.is_serving(row)}
    pinned = {pin.engine_instance_id for pin in scaler.fleet.rules.pins.values()}
    count, capacity = len(serving), sum(serving.values())

    def are_others_enough(row: EngineInstanceRow) -> bool:
        count_of_others, its_own = count - (row.id in serving), serving.get(row.id, 0)
        return not lacking_instances(load, pool, count_of_others, capacity - its_own, SLACK)

    return [row for row in working if row.wanted_version and row.id not in pinned and are_others_enough(row)]


def _shrunk(pool: EnginePool, scaler: _Scaler, dispensable: Iterable[EngineInstanceRow]) -> EnginePool:
    """The pool with an instance that it gives up from now on, if it can do without one."""
    leaving = _emptiest(scaler, dispensable)
    if leaving is None or not scaler.give(DrainEngineInstance(leaving)):
        return pool
    return replace(pool, leaving=leaving, shrinks_at=None)


def _grow(adding: EnginePool, scaler: _Scaler, members: Iterable[EngineInstanceRow], lacking: int) -> str:
    """Add instances. Returns why they are not added; empty if they are.

    None is while an installed one of the same release has failed: the next would fail, too. Nor one that takes no new
    tenant, as it is of the release that a rollout brings, or takes back: while a ring goes back it would be drained as
    soon as it joins, and never be enough.
    """
    rollout = _rollout_of(adding, scaler.fleet)
    if rollout is not None and not rollout.is_on_new and adding.release == rollout.release:
        comes = f"no new tenant comes to {rollout.release.in_words}, which it adds, for now"
        return f"the old instances of the ring lack {lacking} others: {comes}"
    installed = (row for row in members if row.wanted_version and scaler.fleet.release_ordered(row) == adding.release)
    failed = next((row for row in installed if row.state == "failed"), None)
    if failed is not None:
        return f"no instance is added: {failed.id} has failed, {failed.state_message}"
    for _ in range(lacking):
        if not scaler.give(order_for(adding, scaler.fleet.next_name(*adding.key))):
            return f"no instance is added: {scaler.refusal}"
    return ""


def _emptiest(scaler: _Scaler, dispensable: Iterable[EngineInstanceRow]) -> str | None:
    """The one to give up: none whose tenants have just come, or are on their way."""
    busy = {
        tenant.engine_instance_id
        for tenant in scaler.fleet.tenants.values()
        if tenant.id in scaler.burdens.moved_of_late or is_moving(tenant, scaler.fleet)
    } | {move.target for move in scaler.fleet.moves.values()}
    free = [row for row in dispensable if row.id not in busy]
    return min(free, key=lambda row: (scaler.load(row.id), row.id)).id if free else None


def _given_up(pool: EnginePool, scaler: _Scaler, held: str, *, is_needed: bool) -> EnginePool:
    """The pool a step further with the instance that it gives up: its tenants leave, then it is retired.

    It stays if it ``is_needed`` after all.
    """
    row = scaler.fleet.instances.get(pool.leaving or "")
    if row is None or not row.is_leaving:
        return replace(pool, leaving=None)
    if is_needed and scaler.give(UndrainEngineInstance(row.id)):
        return replace(pool, leaving=None, message="")
    if row.state == "drained":
        return _retired(pool, row, scaler)
    if held:
        return replace(pool, message=f"{row.id} waits to be given up: {held}")
    others = scaler.members(pool.key)
    left = [name for name, tenant in scaler.on(row.id) if not scaler.move(name, tenant, others)]
    if not left:
        return replace(pool, message="")
    why = scaler.refusal or "no other instance of the pool has room for them"
    return replace(pool, message=f"{len(left)} tenants cannot leave {row.id}: {why}")


def _retired(pool: EnginePool, row: EngineInstanceRow, scaler: _Scaler) -> EnginePool:
    """The pool without the instance that it gives up, or with a message that names the rule which keeps it."""
    if scaler.give(RetireEngineInstance(row.id)):
        return replace(pool, leaving=None, message="")
    return replace(pool, message=scaler.refusal and f"{row.id} is not retired: {scaler.refusal}")


def _overloads(scaler: _Scaler, patience: Patience, held: str) -> dict[str, Overload]:
    """Instances that are overloaded, after those that have been for long have been relieved.

    One that is down is remediation's to empty.
    """
    found: dict[str, Overload] = {}
    for row in scaler.fleet.instances.values():
        if row.is_taking and is_overloaded(scaler.load(row.id), row.capacity):
            due = Overload(row.id, scaler.now + patience.overload)
            found[row.id] = scaler.burdens.overloads.get(row.id, due)
            if found[row.id].relieved_at <= scaler.now and not held and not scaler.fleet.is_down(row.id):
                _relieve(row, scaler)
                found[row.id] = due
    return found


def _relieve(row: EngineInstanceRow, scaler: _Scaler) -> None:
    """Order away the fewest tenants that bring an instance to its target load.

    That is the smallest which is enough alone, or else the largest first.
    """
    targets = _alike(row, scaler.fleet)
    for name, tenant in _candidates(row, scaler):
        if scaler.load(row.id) <= target_load(row.capacity):
            return
        scaler.move(name, tenant, targets)


def _candidates(row: EngineInstanceRow, scaler: _Scaler) -> Iterator[tuple[TenantName, TenantHere]]:
    excess = scaler.load(row.id) - target_load(row.capacity)
    free = [each for each in scaler.on(row.id) if each[1].id not in scaler.burdens.moved_of_late and each[1].load]
    enough = [each for each in free if each[1].load >= excess]
    yield from enough[-1:]
    yield from (each for each in free if each not in enough[-1:])
