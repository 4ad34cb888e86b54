"""Decides on orders to even the fleet out: many tenants are moved, each by the rules of an order to move it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid5

from services.common.messages import FleetOrder, MoveTenant
from services.planner.domain.fleet.move_orders import move_tenant
from services.planner.domain.fleet.rebalance import PlacedTenant, Relocation, rebalance
from services.planner.domain.fleet.rows import EngineInstanceRow, Fleet, Refused, TenantHere
from services.planner.rows import Tenant, TenantName


def rebalance_fleet(order: FleetOrder, fleet: Fleet) -> tuple[str, Fleet]:
    """What is told of the order, and the fleet afterwards: the very same if it is even. Raises Refused.

    A tenant that a rule keeps where it is does not keep the others: how many stay, and the first rule, is told. One
    that is being moved is left alone, and counts where it will be.
    """
    after, rules = fleet, dict[TenantName, str]()
    for relocation in _relocations(fleet):
        name, target = relocation.placed.tenant.full_name, relocation.target.id
        wanted = MoveTenant(*name, target)
        each = replace(order, id=uuid5(order.id, str(relocation.placed.tenant.id)), order=wanted)
        try:
            _, after = move_tenant(wanted, each, after)
        except Refused as rule:
            rules[name] = str(rule)
    rules |= {name: rule for name, rule in _stranded(after) if name not in rules}
    stay = f"{len(rules)} cannot: {next(iter(rules.values()))}" if rules else ""
    if after is not fleet:
        told = f"tenants that move: {len(after.moves) - len(fleet.moves)} of {len(fleet.tenants)}"
        return f"{told}; {stay}" if stay else told, after
    if stay:
        raise Refused(f"no tenant moves, and {stay}")
    return _even(sum(not move.is_over for move in fleet.moves.values())), fleet


def _even(under_way: int) -> str:
    """What is told if nobody has to move besides so many tenants that are being moved."""
    if not under_way:
        return "each instance carries what it should"
    return f"each instance will carry what it should: {under_way} are being moved, as 'gitopsctl engines moves' shows"


def _relocations(fleet: Fleet) -> Iterator[Relocation]:
    """Within each region, among instances of the same engine: no tenant leaves these."""
    coming = coming_objects(fleet)
    alike: defaultdict[tuple[str, str], list[EngineInstanceRow]] = defaultdict(list)
    for row in fleet.instances.values():
        if not row.is_retired and row.engine in fleet.engines:
            alike[row.region, row.engine].append(row)
    for rows in alike.values():
        known = {row.id: row for row in rows}
        placed = [
            placed_tenant(name, tenant, known[tenant.engine_instance_id])
            for name, tenant in fleet.tenants.items()
            if tenant.engine_instance_id in known and not is_moving(tenant, fleet)
        ]
        yield from rebalance(placed, [fleet.candidate(row) for row in rows], coming)


def is_moving(tenant: TenantHere, fleet: Fleet) -> bool:
    """Whether a tenant is on its way to another instance, or back."""
    return tenant.id in fleet.moves and not fleet.moves[tenant.id].is_over


def coming_objects(fleet: Fleet) -> Counter[str]:
    """Objects of tenants that are being moved, by the instance where they will be."""
    coming = Counter[str]()
    for tenant in fleet.tenants.values():
        if is_moving(tenant, fleet):
            coming[fleet.moves[tenant.id].destination] += tenant.objects
    return coming


def placed_tenant(name: TenantName, tenant: TenantHere, on: EngineInstanceRow) -> PlacedTenant:
    """A tenant as it is distributed; one with deployments to its instance's own cluster cannot leave that."""
    return PlacedTenant(
        Tenant(tenant.id, *name, tenant.partition, tenant.engine_instance_id),
        tenant.objects,
        on.engine_cluster if tenant.of_engine_cluster else "",
    )


def _stranded(fleet: Fleet) -> Iterator[tuple[TenantName, str]]:
    """Tenants that stay on an instance which is to be emptied, and why."""
    for name, tenant in fleet.tenants.items():
        instance = fleet.instances[tenant.engine_instance_id]
        if instance.is_leaving and tenant.id not in fleet.moves:
            yield name, f"no other instance takes tenants of engine instance {instance.id}"
