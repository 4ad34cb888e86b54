"""Brings a version to the fleet, ring by ring: what comes next, from what is seen of the ring. Pure.

In each ring, in this order:

1. ``provisioning``: instances of the version join the ring, until they have room for all that its old ones carry.
2. ``moving``: some of the ring's tenants move to them: 1 %, then 10 %, then all.
3. ``soaking``: what was moved is looked at for a time, and judged (``gates.py``). Then 2 again, with more tenants.
4. ``draining``: the old instances take no new tenants, and those that came meanwhile move, too.
5. ``retiring``: the old instances are given up. The next ring begins when none has joined the ring meanwhile.

Until 4 a ring goes back: ``reverting`` drains the new instances and moves everybody to the old ones. A gate that fails,
a new instance that is down, and an order to abort do that, and end the rollout. From 4 on a ring is the new version's;
an abort ends the rollout after it. Each step is a row, decided by what is seen, and so safe to repeat: a move is
ordered only for a tenant that is not where it should be, and not on its way.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from services.planner.domain.fleet.moves.move_orders import begun_move, require_apart, require_room
from services.planner.domain.fleet.placement.assignment_orders import require_nobody_pinned, require_unpinned
from services.planner.domain.fleet.placement.placement import order_of
from services.planner.domain.fleet.pools.pool_rows import namespace_of
from services.planner.domain.fleet.rollouts.gates import Verdict, is_enough, judge
from services.planner.domain.fleet.rollouts.rollout_rows import STAGES, Figures, Rollout, RolloutStep, together
from services.planner.domain.fleet.rows import SILENT, EngineInstanceRow, Fleet, Refused, TenantHere
from services.planner.rows import TenantName

DATA_PATIENCE = timedelta(minutes=30)
"""How long figures are waited for: of the ring's past, which is then left out, and beyond a soak, which has failed."""
STALLED_AFTER = timedelta(hours=1)
"""If no tenant has arrived for so long the rollout pauses: what keeps the others is for operators to mend."""
_TAKING = ("accepting", "full")
Cell = tuple[str, str, str, str]
"""Engine cluster, engine, class and owner: within it a tenant may move whatever it has."""
NUMBERS: Mapping[RolloutStep, int] = {
    "ordered": 0,
    "provisioning": 1,
    "moving": 2,
    "soaking": 3,
    "draining": 4,
    "retiring": 5,
    "reverting": 6,
    "done": 7,
    "failed": 8,
    "aborted": 9,
}


@dataclass(frozen=True, slots=True)
class Ring:
    """The instances of a ring, as a rollout sees them."""

    sources: tuple[EngineInstanceRow, ...]
    """Those that do not run the version, or of which nobody sees what they run."""
    targets: tuple[EngineInstanceRow, ...]
    """Those that do, and take tenants."""
    unknown: tuple[EngineInstanceRow, ...]
    """Those of which no agent has told anything yet."""


def settle_rollout(fleet: Fleet, now: datetime, interval: timedelta) -> Fleet:
    """With the next step of the rollout that is under way, if it is due.

    Args:
        fleet: all rows, all tenants of the ring, what is on its instances, and the figures that the step asks for.
        now: the time.
        interval: when to look again.
    """
    before = fleet.rollout
    if before is None or not before.is_due(now):
        return fleet
    after = _STEPS[before.step](before, fleet, now)
    rollout = after.rollout
    assert rollout is not None  # noqa: S101 - no step takes it away
    is_waiting = not rollout.is_over and not rollout.is_paused
    return after.with_rollout(replace(rollout, due_at=now + interval if is_waiting else None))


def ring_of(rollout: Rollout, ring: str, fleet: Fleet) -> Ring:
    """The instances of ``ring``; those that are drained, retired, failed or being installed are left out."""
    members = [row for row in fleet.instances.values() if row.ring == ring and _is_serving(row, fleet)]
    new = [row for row in members if runs(row, rollout, fleet)]
    unknown = [row for row in members if row not in new and row.id not in fleet.health]
    return Ring(
        tuple(row for row in members if row not in new and row not in unknown),
        tuple(row for row in new if row.state in _TAKING and not fleet.is_down(row.id)),
        tuple(unknown),
    )


def runs(row: EngineInstanceRow, rollout: Rollout, fleet: Fleet) -> bool:
    """Whether an instance is of the rollout's release: as its agent tells, or else as it was ordered."""
    told = fleet.health.get(row.id)
    version = (told.version if told is not None else "") or row.wanted_version or ""
    return (version, row.profile or "") == (rollout.version, rollout.profile)


def reverted(rollout: Rollout, outcome: str, reason: str, now: datetime) -> Rollout:
    """On its way back, and over after that."""
    return replace(_at(rollout, "reverting", now), outcome=outcome, reason=reason, is_paused=False)


def stage_tenants(stage: int, tenants: int) -> int:
    """How many of a ring's tenants are on new instances at a stage: at least one."""
    return min(tenants, max(1, math.ceil(tenants * stage / 100)))


def _is_serving(row: EngineInstanceRow, fleet: Fleet) -> bool:
    return not (row.is_retired or row.is_unready or row.state == "drained") and row.engine in fleet.engines


def _begin(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    return fleet.with_rollout(_in_ring(rollout, rollout.ring_names[0], now))


def _provision(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 1: sources and targets are settled when the first tenant moves; until then whoever joins counts."""
    ring = ring_of(rollout, rollout.ring, fleet)
    past = together(fleet.figures[row.id] for row in ring.sources if row.id in fleet.figures)
    is_told = is_enough(past) or now >= rollout.step_since + DATA_PATIENCE
    if ring.unknown:
        return _waiting(rollout, f"no agent has told of engine instance {ring.unknown[0].id} yet", fleet)
    if not ring.sources:
        return _with_pools(rollout, fleet).with_rollout(_next_ring(rollout, now))
    if lacking := [lacking_room(each, rollout) for each in shortages(ring, fleet)]:
        return _waiting(rollout, lacking[0], _with_ordered(ring, rollout, fleet, now))
    if any(fleet.holding(row.id).deployments for row in ring.sources) and not is_told:
        return _waiting(rollout, "too little is known of what the ring's instances did so far", fleet)
    settled = replace(
        rollout, sources=_ids(ring.sources), targets=_ids(ring.targets), baseline=json.dumps(asdict(past))
    )
    return fleet.with_rollout(_next_stage(settled, fleet, now))


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a ring's new instances lack in one of its cells."""

    cell: Cell
    carried: int
    """Applications of the old instances."""
    room: int
    """For Applications."""


def shortages(ring: Ring, fleet: Fleet) -> list[Shortage]:
    """Cells whose new instances have no room for all that the old ones carry; or are none."""
    found = []
    for cell in sorted({_cell(row) for row in ring.sources}):
        alike = [row for row in ring.targets if _cell(row) == cell]
        carried = sum(fleet.holding(row.id).deployments for row in ring.sources if _cell(row) == cell)
        room = sum(max(0, row.capacity - fleet.holding(row.id).deployments) for row in alike)
        if not alike or room < carried:
            found.append(Shortage(cell, carried, room))
    return found


def lacking_room(lacking: Shortage, rollout: Rollout) -> str:
    """A shortage in words."""
    cluster, _, engine_class, owner = lacking.cell
    for_whom = f" for workspace {owner}" if owner else ""
    return (
        f"ring {rollout.ring} needs {engine_class} instances of {release(rollout)} in cluster {cluster}{for_whom} with "
        f"room for {lacking.carried} Applications, and has room for {lacking.room}: 'gitopsctl engines add' adds one"
    )


def _with_ordered(ring: Ring, rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """With instances that a provisioner installs, where the ring has a pool; beyond its limits, as the old ones go."""
    for lacking in shortages(ring, fleet):
        cluster, engine, engine_class, _ = lacking.cell
        pool = fleet.pools.get((cluster, rollout.ring))
        if pool is None or engine_class != "shared" or fleet.clusters[cluster].state != "active":
            continue
        joining = [
            row for row in fleet.instances.values()
            if (_cell(row), row.ring) == (lacking.cell, rollout.ring)
            and row.is_unready and runs(row, rollout, fleet)
        ]  # fmt: skip
        missing = lacking.carried - lacking.room - sum(row.capacity for row in joining)
        wanted = math.ceil(missing / pool.capacity) if missing > 0 else int(not joining)
        for _ in range(wanted):
            name = fleet.next_name(*pool.key)
            row = EngineInstanceRow(
                id=name,
                namespace=namespace_of(name),
                engine=engine,
                engine_cluster=cluster,
                region=fleet.clusters[cluster].region,
                engine_class="shared",
                dedicated_to="",
                ring=rollout.ring,
                capacity=pool.capacity,
                state="provisioning",
                created_at=now,
                ordered_at=now,
                wanted_version=rollout.version,
                profile=rollout.profile or None,
            )
            fleet = fleet.with_instance(row)
    return fleet


def _with_pools(rollout: Rollout, fleet: Fleet) -> Fleet:
    """What joins the ring from now on is of the release, too."""
    for pool in tuple(fleet.pools.values()):
        if pool.ring == rollout.ring:
            fleet = fleet.with_pool(replace(pool, version=rollout.version, profile=rollout.profile))
    return fleet


def release(rollout: Rollout) -> str:
    """What is rolled out, in words."""
    return f"{rollout.version} with profile {rollout.profile}" if rollout.profile else rollout.version


def _move(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 2. Those who move are drawn: by a hash of theirs and the rollout's id, those with Applications first."""
    if trouble := _trouble(rollout, fleet):
        return _stopped_or_waiting(rollout, trouble, fleet, now)
    tenants = _of_ring(rollout, fleet)
    wanted = stage_tenants(rollout.stage, len(tenants))
    settled = sum(_is_settled(each, rollout, fleet) for each in tenants.values())
    coming = sum(_is_coming(each, rollout, fleet) for each in tenants.values())
    drawn = [name for name in _drawn(rollout, tenants) if _may_leave(tenants[name], rollout.source_ids, fleet)]
    after, rule = _send(rollout, fleet, drawn, rollout.target_ids, now, max(0, wanted - settled - coming))
    counted = _counted(rollout, len(tenants), settled, now)
    if settled >= wanted:
        return after.with_rollout(_at(counted, "soaking", now))
    if now >= counted.moved_at + STALLED_AFTER:
        reason = f"no tenant has arrived for {STALLED_AFTER}; resume, or abort: {rule or 'see gitopsctl engines moves'}"
        return withdrawn(after.with_rollout(replace(counted, is_paused=True, reason=reason)), now)
    told = f"{settled} of {wanted} tenants are on new instances"
    return _waiting(counted, f"{told}: {rule}" if rule else told, after)


def _soak(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 3. A gate that fails does not wait for the end of the soak; one that passes does."""
    if trouble := _trouble(rollout, fleet):
        return _stopped_or_waiting(rollout, trouble, fleet, now)
    over = rollout.step_since + rollout.soak
    verdict = judge(past_of(rollout), {each: fleet.figures.get(each, Figures()) for each in _judged(rollout, fleet)})
    if verdict.outcome == "wait" and now >= over + DATA_PATIENCE:
        verdict = Verdict("fail", f"too little was told in {rollout.soak + DATA_PATIENCE}: {verdict.reason}")
    if verdict.outcome == "fail":
        return fleet.with_rollout(reverted(rollout, "failed", f"at {rollout.stage} %: {verdict.reason}", now))
    if now < over:
        return _waiting(rollout, f"until {over.isoformat(timespec='seconds')}", fleet)
    if verdict.outcome == "wait":
        return _waiting(rollout, verdict.reason, fleet)
    return fleet.with_rollout(_next_stage(rollout, fleet, now))


def past_of(rollout: Rollout) -> Figures:
    """Of the ring's old instances, before the first tenant moved."""
    return Figures(**json.loads(rollout.baseline)) if rollout.baseline else Figures()


def _drain(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 4. From here on the ring does not go back."""
    fleet = _drained(rollout.source_ids, fleet)
    tenants = _of_ring(rollout, fleet)
    late = [name for name in _drawn(rollout, tenants) if _may_leave(tenants[name], rollout.source_ids, fleet)]
    fleet, rule = _send(rollout, fleet, late, rollout.target_ids, now, len(late))
    settled = sum(_is_settled(each, rollout, fleet) for each in tenants.values())
    counted = _counted(rollout, len(tenants), settled, now)
    if left := _occupied(rollout.source_ids, fleet):
        return _waiting(counted, f"something is on engine instance {left[0]} yet{rule and f': {rule}'}", fleet)
    return fleet.with_rollout(_at(counted, "retiring", now))


def _retire(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Step 5. What came to one of them in the last moment moves first. Then 1: old instances may have joined since."""
    if _occupied(rollout.source_ids, fleet):
        return fleet.with_rollout(_at(rollout, "draining", now))
    leaving = [row for known in sorted(rollout.source_ids) if not (row := fleet.instances[known]).is_retired]
    try:
        for row in leaving:
            require_nobody_pinned(row, fleet)
    except Refused as rule:
        return _waiting(rollout, str(rule), fleet)
    for row in leaving:
        fleet = fleet.with_instance(replace(row, state="retired", ordered_at=now))
    joined = ring_of(rollout, rollout.ring, fleet)
    if (joined.sources or joined.unknown) and not rollout.outcome:
        return fleet.with_rollout(_in_ring(rollout, rollout.ring, now))
    return _with_pools(rollout, fleet).with_rollout(_next_ring(rollout, now))


def _revert(rollout: Rollout, fleet: Fleet, now: datetime) -> Fleet:
    """Back. Moves that can be cancelled are, because their targets drain; the others end, and go back after that."""
    targets = rollout.target_ids
    fleet = _drained(targets, fleet)
    tenants = _of_ring(rollout, fleet)
    back = [name for name in _drawn(rollout, tenants) if _may_leave(tenants[name], targets, fleet)]
    fleet, _ = _send(rollout, fleet, back, rollout.source_ids, now, len(back))
    counted = _counted(rollout, len(tenants), sum(_is_on(each, targets) for each in tenants.values()), now)
    if counted.moved or any(_is_moving(each, fleet) for each in tenants.values()):
        return fleet.with_rollout(counted)
    final: RolloutStep = "aborted" if rollout.outcome == "aborted" else "failed"
    return fleet.with_rollout(replace(_at(counted, final, now), reason=rollout.reason))


_STEPS: Mapping[RolloutStep, Callable[[Rollout, Fleet, datetime], Fleet]] = {
    "ordered": _begin,
    "provisioning": _provision,
    "moving": _move,
    "soaking": _soak,
    "draining": _drain,
    "retiring": _retire,
    "reverting": _revert,
}


def withdrawn(fleet: Fleet, now: datetime) -> Fleet:
    """Without the rollout's moves that have not begun: a rollout that is paused begins none."""
    rollout = fleet.rollout
    if rollout is None:
        return fleet
    for move in tuple(fleet.moves.values()):
        if move.step == "ordered" and move.source in rollout.source_ids and move.target in rollout.target_ids:
            ended = replace(move, step="cancelled", is_cancelled=True, step_since=now, message="the rollout is paused")
            fleet = fleet.with_move(ended)
    return fleet


def _at(rollout: Rollout, step: RolloutStep, now: datetime) -> Rollout:
    return replace(rollout, step=step, step_since=now, moved_at=now, reason="")


def _in_ring(rollout: Rollout, ring: str, now: datetime) -> Rollout:
    begun = _at(rollout, "provisioning", now)
    return replace(begun, ring=ring, stage=0, sources="[]", targets="[]", baseline="", tenants=0, moved=0)


def _next_ring(rollout: Rollout, now: datetime) -> Rollout:
    """The one after this, or the end."""
    if rollout.outcome == "aborted":
        return replace(_at(rollout, "aborted", now), reason=rollout.reason)
    following = rollout.ring_names[rollout.ring_names.index(rollout.ring) + 1 :]
    return _in_ring(rollout, following[0], now) if following else _at(rollout, "done", now)


def _next_stage(rollout: Rollout, fleet: Fleet, now: datetime) -> Rollout:
    """The first with more tenants than are there already, or step 4 if all are."""
    tenants = _of_ring(rollout, fleet).values()
    there = sum(_is_on(each, rollout.target_ids) for each in tenants)
    for stage in STAGES:
        if stage > rollout.stage and stage_tenants(stage, len(tenants)) > there:
            return replace(_at(rollout, "moving", now), stage=stage, tenants=len(tenants), moved=there)
    return replace(_at(rollout, "draining", now), stage=STAGES[-1], tenants=len(tenants), moved=there)


def _waiting(rollout: Rollout, reason: str, fleet: Fleet) -> Fleet:
    return fleet.with_rollout(replace(rollout, reason=reason))


def _counted(rollout: Rollout, tenants: int, moved: int, now: datetime) -> Rollout:
    moved_at = rollout.moved_at if moved == rollout.moved else now
    return replace(rollout, tenants=tenants, moved=moved, moved_at=moved_at)


def _trouble(rollout: Rollout, fleet: Fleet) -> str:
    """Which of the ring's instances does not work; empty if all do. The new ones are named first."""
    in_order = (*sorted(rollout.target_ids), *sorted(rollout.source_ids))
    return next((each for each in in_order if fleet.is_down(each)), "")


def _stopped_or_waiting(rollout: Rollout, instance: str, fleet: Fleet, now: datetime) -> Fleet:
    """Only a new instance that is down while the old ones work says something of the version."""
    told = fleet.health[instance]
    reason = f"engine instance {instance} is down: {told.message or told.reason}"
    is_shared = any(fleet.is_down(each) for each in rollout.source_ids)
    if told.reason == SILENT or is_shared:
        return _waiting(rollout, reason, fleet)
    return fleet.with_rollout(reverted(rollout, "failed", f"at {rollout.stage} %: {reason}", now))


def _judged(rollout: Rollout, fleet: Fleet) -> list[str]:
    """New instances that have tenants."""
    return sorted({each.engine_instance_id for each in _of_ring(rollout, fleet).values()} & rollout.target_ids)


def _of_ring(rollout: Rollout, fleet: Fleet) -> dict[TenantName, TenantHere]:
    ids = rollout.source_ids | rollout.target_ids
    return {name: each for name, each in fleet.tenants.items() if each.engine_instance_id in ids}


def _drawn(rollout: Rollout, tenants: Mapping[TenantName, TenantHere]) -> list[TenantName]:
    """In the order in which they move: those first that have something to look at."""
    return sorted(tenants, key=lambda name: (not tenants[name].deployments, _draw(rollout.id, tenants[name].id)))


def _draw(rollout: UUID, tenant: UUID) -> bytes:
    return hashlib.blake2b(tenant.bytes, key=rollout.bytes, digest_size=16).digest()


def _is_on(tenant: TenantHere, instances: frozenset[str]) -> bool:
    return tenant.engine_instance_id in instances


def _is_moving(tenant: TenantHere, fleet: Fleet) -> bool:
    move = fleet.moves.get(tenant.id)
    return move is not None and not move.is_over


def _is_settled(tenant: TenantHere, rollout: Rollout, fleet: Fleet) -> bool:
    return _is_on(tenant, rollout.target_ids) and not _is_moving(tenant, fleet)


def _is_coming(tenant: TenantHere, rollout: Rollout, fleet: Fleet) -> bool:
    return _is_moving(tenant, fleet) and fleet.destination_of(tenant) in rollout.target_ids


def _may_leave(tenant: TenantHere, instances: frozenset[str], fleet: Fleet) -> bool:
    return _is_on(tenant, instances) and not _is_moving(tenant, fleet)


def _send(
    rollout: Rollout, fleet: Fleet, names: Iterable[TenantName], to: frozenset[str], now: datetime, most: int
) -> tuple[Fleet, str]:
    """With a move ordered for the first ``most`` that find an instance, and the last rule that kept one."""
    rule, sent = "", 0
    for name in names:
        if sent == most:
            break
        tenant = fleet.tenants[name]
        if _is_moving(tenant, fleet):
            continue  # another part of it is on its way: one at a time
        try:
            if rollout.step != "reverting":
                require_unpinned(name, fleet)
            target = _target(name, to, rollout, fleet)
        except Refused as refused:
            rule = f"{'/'.join(name)}: {refused}"
            continue
        known = uuid5(rollout.id, f"{tenant.id} {target} {now.isoformat()}")
        move = begun_move(known, name, tenant, target, rollout.actor, now)
        fleet, sent = fleet.with_move(move).with_coming(target, tenant), sent + 1
    return fleet, rule


def _target(name: TenantName, to: frozenset[str], rollout: Rollout, fleet: Fleet) -> str:
    """The first of the tenant's own order that has room; who goes back had room. Raises Refused.

    A part goes to the tenant's own instance only if there is no other.
    """
    tenant = fleet.tenants[name]
    cell = _cell(fleet.instances[tenant.engine_instance_id])
    alike = [fleet.instances[each] for each in to if _cell(fleet.instances[each]) == cell]
    working = [row for row in alike if row.state in _TAKING and not _is_ill(row.id, fleet)]
    if not working:
        raise Refused(f"no instance of ring {rollout.ring} in cluster {cell[0]} can have it")
    rules: list[Refused] = []
    parts = fleet.parts_of(tenant)
    in_order = order_of(tenant.id, [row.as_candidate for row in working])
    for each in sorted(in_order, key=lambda each: each.id in parts):
        try:
            require_apart(name, tenant, each.id, fleet)
            if rollout.step != "reverting":
                require_room(fleet.instances[each.id], tenant, fleet)
        except Refused as rule:
            rules.append(rule)
        else:
            return each.id
    raise rules[0]


def _is_ill(instance: str, fleet: Fleet) -> bool:
    return fleet.is_down(instance) or instance in fleet.cordoned


def _cell(row: EngineInstanceRow) -> Cell:
    return (row.engine_cluster, row.engine, row.engine_class, row.dedicated_to)


def _occupied(instances: Iterable[str], fleet: Fleet) -> list[str]:
    """Those with tenants, or with objects of tenants that have left."""
    return sorted(each for each in instances if fleet.holding(each).tenants or fleet.holding(each).objects)


def _drained(instances: Iterable[str], fleet: Fleet) -> Fleet:
    """With no new tenants on these."""
    for known in sorted(instances):
        row = fleet.instances[known]
        if row.state in _TAKING:
            fleet = fleet.with_instance(replace(row, state="draining"))
    return fleet


def _ids(rows: Iterable[EngineInstanceRow]) -> str:
    return json.dumps(sorted(row.id for row in rows))
