"""Decides on orders to even the fleet out: each move has to pass the rules of an order to move the tenant. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from uuid import uuid5

from services.common.messages import FleetOrder, MoveTenant, RebalanceInstances
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.loaded_parts import TenantHere
from services.planner.domain.fleet.moves.move_orders import (
    held_by_rollout,
    new_move,
    require_unmoved,
    rolled_out_in_words,
)
from services.planner.domain.fleet.moves.rebalance import PlacedTenant, Relocation, rebalance
from services.planner.domain.fleet.order_validation import known_instance, state_in_words
from services.planner.domain.fleet.placement.assignment_orders import pinned_in_words
from services.planner.domain.fleet.placement.measured_load import WAITING
from services.planner.domain.fleet.rows import EngineInstanceRow, Refused
from services.planner.rows.tenants import Tenant, TenantName


def rebalance_fleet(order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """A message about the order, and the fleet after it: the same object if it is even. Raises Refused.

    If a rule keeps a tenant where it is, the others move nevertheless: the message says how many stay, with the first
    rule. A tenant that is being moved stays as it is, and counts where it will be.
    """
    return _rebalanced(fleet.instances, "each instance", order, fleet)


def rebalance_instances(given: RebalanceInstances, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """The same for an order by which only tenants of the named instances move. Raises Refused."""
    held = held_by_rollout(fleet)
    for name in given.sources:
        known = known_instance(name, fleet)
        if known.is_retired:
            raise Refused(state_in_words(known))
        if name in held:
            raise Refused(rolled_out_in_words(known.ring))
    return _rebalanced(frozenset(given.sources), "each instance that is named", order, fleet)


def _rebalanced(sources: Collection[str], who: str, order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """``sources``: ids of the instances that tenants may leave, and ``who`` these are in words."""
    rules = dict[TenantName, str]()
    moves = {**fleet.moves}  # it grows: to copy all moves for each one takes seconds where thousands move
    after = replace(fleet, moves=moves)
    for relocation in _relocations(sources, fleet):
        name, target = relocation.placed.tenant.full_name, relocation.target.id
        wanted, tenant = MoveTenant(*name, target), fleet.tenants[name]
        each = replace(order, id=uuid5(order.id, str(tenant.id)), order=wanted)
        try:
            require_unmoved(wanted, tenant, after)
            moves[tenant.id] = new_move(wanted, each, after)
        except Refused as rule:
            rules[name] = str(rule)
        else:
            after = after.with_coming(target, tenant)
    rules |= {name: rule for name, rule in _stranded(sources, after) if name not in rules}
    stay = f"{len(rules)} cannot: {next(iter(rules.values()))}" if rules else ""
    if len(moves) > len(fleet.moves):
        here = [name for name, tenant in fleet.tenants.items() if tenant.engine_instance_id in sources]
        moved = f"tenants that move: {len(moves) - len(fleet.moves)} of {len(here)}"
        return f"{moved}; {stay}" if stay else moved, after
    if stay:
        raise Refused(f"no tenant moves, and {stay}")
    return _even(who, sum(not move.is_over and move.source in sources for move in fleet.moves.values())), fleet


def _even(who: str, under_way: int) -> str:
    """The answer if no tenant has to move, besides those that are being moved."""
    if not under_way:
        return f"{who} carries what it should"
    return f"{who} will carry what it should: {under_way} are being moved, as 'gitopsctl engines moves' shows"


def _relocations(sources: Collection[str], fleet: Fleet) -> Iterator[Relocation]:
    """The moves from ``sources`` that even out each engine's instances: no tenant leaves its engine.

    A rollout has its ring to itself.
    """
    staying, held = load_staying(fleet), held_by_rollout(fleet)
    leaving = dict[TenantName, TenantHere]()
    for name, tenant in fleet.tenants.items():
        if stays(name, tenant, fleet):
            continue
        if tenant.engine_instance_id in sources:
            leaving[name] = tenant
        else:
            staying[tenant.engine_instance_id] += tenant.load
    alike: defaultdict[str, list[EngineInstanceRow]] = defaultdict(list)
    for row in fleet.instances.values():
        if not row.is_retired and row.engine in fleet.engines and row.id not in held:
            alike[row.engine].append(row)
    for rows in alike.values():
        known = {row.id: row for row in rows}
        placed = [
            placed_tenant(name, tenant, known[tenant.engine_instance_id], fleet)
            for name, tenant in leaving.items()
            if tenant.engine_instance_id in known
        ]
        yield from rebalance(placed, [fleet.candidate(row) for row in rows], staying)


def is_moving(tenant: TenantHere, fleet: Fleet) -> bool:
    """Whether a tenant is on its way to another instance, or back."""
    return tenant.id in fleet.moves and not fleet.moves[tenant.id].is_over


def stays(name: TenantName, tenant: TenantHere, fleet: Fleet) -> bool:
    """Whether a tenant may not be moved: it is pinned, or being moved."""
    return is_moving(tenant, fleet) or bool(fleet.rules.pinned_to(name))


def load_staying(fleet: Fleet) -> Counter[str]:
    """By instance, the load that may not be moved: of queues, and of tenants that are pinned or will come."""
    found = Counter({instance: WAITING * health.queue for instance, health in fleet.health.items()})
    for name, tenant in fleet.tenants.items():
        if stays(name, tenant, fleet):
            found[fleet.destination_of(tenant)] += tenant.load
    return found


def placed_tenant(name: TenantName, tenant: TenantHere, on: EngineInstanceRow, fleet: Fleet) -> PlacedTenant:
    """A tenant on its instance, with the instances that it may be on.

    A tenant that is assigned to no region stays in its region. A tenant that deploys to its engine's cluster, or is
    split, stays in that cluster.
    """
    workspace, _ = name
    is_bound = tenant.of_engine_cluster or tenant.is_split
    return PlacedTenant(
        Tenant(tenant.id, *name, tenant.partition, tenant.engine_instance_id),
        tenant.load,
        fleet.rules.affinity(workspace, on.region, on.engine_cluster if is_bound else ""),
    )


def _stranded(sources: Collection[str], fleet: Fleet) -> Iterator[tuple[TenantName, str]]:
    """Tenants that stay on one of ``sources`` that is to be emptied or may not have them, each with why."""
    for name, tenant in fleet.tenants.items():
        instance = fleet.instances[tenant.engine_instance_id]
        if tenant.id in fleet.moves or instance.id not in sources:
            continue
        if instance.is_leaving and (pinned := pinned_in_words(name, fleet)):
            yield name, pinned
        elif instance.is_leaving:
            alike = (row for row in fleet.instances.values() if row.engine == instance.engine and not row.is_retired)
            has_own = placed_tenant(name, tenant, instance, fleet).affinity.among(alike).has_own
            owned = f" that workspace {name[0]} has to itself" if has_own else ""
            yield name, f"no other instance{owned} takes tenants of engine instance {instance.id}"
        elif refusal := fleet.rules.affinity(name[0]).refusal(instance):
            yield name, f"no instance that may have it takes tenant {'/'.join(name)}, and {refusal}"
