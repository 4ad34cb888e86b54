"""The tenants of a ring in a rollout: which of them move next, and where each goes. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID, uuid5

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.move_orders import ordered_move, require_apart, require_room
from services.planner.domain.fleet.moves.rebalance_orders import is_moving
from services.planner.domain.fleet.placement.assignment_orders import require_unpinned
from services.planner.domain.fleet.placement.placement import bounds_of, order_of
from services.planner.domain.fleet.remediation.evacuation_targets import MOST_BEYOND
from services.planner.domain.fleet.rollouts.ring_instances import cell_of
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import EngineInstanceRow, Move, Refused
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import TenantName


def tenants_of(rollout: Rollout, fleet: Fleet) -> dict[TenantName, TenantHere]:
    """Tenants on old and on new instances of the rollout's ring, by their names."""
    return fleet.tenants.on(rollout.source_ids | rollout.target_ids)


def in_order_drawn(rollout: Rollout, tenants: Mapping[TenantName, TenantHere]) -> list[TenantName]:
    """Names of ``tenants`` in the order in which they move: drawn by lot, and the same at every look.

    Tenants without deployments are last, because a gate has nothing of theirs to judge.
    """
    return sorted(tenants, key=lambda name: (not tenants[name].deployments, _draw(rollout.id, tenants[name].id)))


def _draw(rollout: UUID, tenant: UUID) -> bytes:
    return hashlib.blake2b(tenant.bytes, key=rollout.bytes, digest_size=16).digest()


def is_on(tenant: TenantHere, instances: frozenset[str]) -> bool:
    """Whether the tenant is on one of these instances."""
    return tenant.engine_instance_id in instances


def most_parts(rollout: Rollout, fleet: Fleet) -> int:
    """The highest number of new instances that one tenant is on."""
    there = Counter(each.id for each in tenants_of(rollout, fleet).values() if is_on(each, rollout.target_ids))
    return max(there.values(), default=1)


def is_settled(tenant: TenantHere, rollout: Rollout, fleet: Fleet) -> bool:
    """Whether the tenant has arrived on a new instance; its source may still have objects to remove."""
    has_arrived = not is_moving(tenant, fleet) or fleet.moves[tenant.id].step == "withdrawing"
    return is_on(tenant, rollout.target_ids) and has_arrived


def count_settled(rollout: Rollout, fleet: Fleet, now: datetime) -> Rollout:
    """The rollout with how many tenants its ring has, and how many of these have arrived on new instances."""
    tenants = tenants_of(rollout, fleet)
    return rollout.with_counts(len(tenants), sum(is_settled(each, rollout, fleet) for each in tenants.values()), now)


def is_coming(tenant: TenantHere, rollout: Rollout, fleet: Fleet) -> bool:
    """Whether the tenant is on its way to a new instance."""
    is_bound = is_moving(tenant, fleet) and fleet.destination_of(tenant) in rollout.target_ids
    return is_bound and not is_settled(tenant, rollout, fleet)


def may_leave(tenant: TenantHere, instances: frozenset[str], fleet: Fleet) -> bool:
    """Whether the tenant is on one of these instances, and not being moved."""
    return is_on(tenant, instances) and not is_moving(tenant, fleet)


def send_tenants(
    rollout: Rollout, fleet: Fleet, names: Iterable[TenantName], to: frozenset[str], now: datetime, most: int
) -> tuple[Fleet, str]:
    """The fleet with moves of the first ``most`` tenants for which there is an instance, and the last rule against one.

    Tenants whose moves there went back of late are last: a tenant that cannot be prepared keeps no other waiting.
    """
    rule, sent = "", dict[UUID, Move]()
    for name in sorted(names, key=lambda name: _count_returned(fleet.tenants[name], to, fleet)):
        if len(sent) == most:
            break
        tenant = fleet.tenants[name]
        if tenant.id in sent or is_moving(tenant, fleet):
            continue  # another part of it is on its way: one at a time
        try:
            require_unpinned(name, fleet)
            target = _find_target(name, to, rollout, fleet)
        except Refused as refused:
            rule = f"{'/'.join(name)}: {refused}"
            continue
        move_id = uuid5(rollout.id, f"{tenant.id} {target} {now.isoformat()}")
        sent[tenant.id] = ordered_move(move_id, name, tenant, target, rollout.actor, now)
        fleet = fleet.with_coming(target, tenant)
    return fleet.with_moves(sent.values()), rule


def _count_returned(tenant: TenantHere, to: frozenset[str], fleet: Fleet) -> int:
    return sum(fleet.returned.get((tenant.id, each), 0) for each in to)


def _find_target(name: TenantName, to: frozenset[str], rollout: Rollout, fleet: Fleet) -> str:
    """Id of the first instance, by the tenant's own order, that has room and is within its bound. Raises Refused.

    If none is within its bound, it is the instance that carries the least for its capacity. A part goes to an instance
    with another part of its tenant only if there is no other.
    """
    require_place = _require_bearable if rollout.step == "reverting" else require_room
    tenant = fleet.tenants[name]
    cell = cell_of(fleet.instances[tenant.engine_instance_id])
    alike = [fleet.instances[each] for each in to if cell_of(fleet.instances[each]) == cell]
    working = [row for row in alike if fleet.takes_tenants(row)]
    if not working:
        raise Refused(f"no instance of ring {rollout.ring} in cluster {cell[0]} can have it")
    rules: list[Refused] = []
    parts = fleet.parts_of(tenant)
    candidates = [row.as_candidate for row in working]
    load = {each.id: fleet.holding(each.id).deployments for each in candidates}
    most = bounds_of(candidates, load, tenant.deployments)

    def precedence(each: PlacementCandidate) -> tuple[bool, float]:
        is_within = load[each.id] + tenant.deployments <= most[each.id]
        return each.id in parts, 0.0 if is_within else 1 + load[each.id] / each.capacity

    for each in sorted(order_of(tenant.id, candidates), key=precedence):
        try:
            require_apart(name, tenant, each.id, fleet)
            require_place(fleet.instances[each.id], tenant, fleet)
        except Refused as rule:
            rules.append(rule)
        else:
            return each.id
    raise rules[0]


def _require_bearable(target: EngineInstanceRow, tenant: TenantHere, fleet: Fleet) -> None:
    """Raises Refused if the target would carry so much that it may fall ill.

    A tenant that goes back may have come from another instance, so the target may lack room for it. Up to this limit it
    goes back all the same: it must not stay on a version that has failed.
    """
    if fleet.holding(target.id).deployments + tenant.deployments > MOST_BEYOND * target.capacity:
        raise Refused(f"engine instance {target.id} would have more than {MOST_BEYOND} times its capacity")
