"""Where tenants are: each on the instance that the fleet has it on, and nothing was deleted on the way there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from chaos.api import APPLICATION_PREFIX
from chaos.checker.difference import Difference, difference_of
from chaos.checker.tenants import Tenant
from chaos.checker.world import World
from chaos.record import Record


def move_differences(world: World, tenants: Sequence[Tenant], record: Record) -> Iterator[Difference]:
    """All of them."""
    for move in world.moves:
        if not move.is_over:
            yield Difference("status", f"tenant {move.tenant}", f"a move of it is {move.step}", move.tenant)
    places: dict[str, set[str]] = defaultdict(set)
    for item in world.applications:
        places[item["metadata"]["name"]].add(item["metadata"]["namespace"])
    for tenant in tenants:
        yield from _misplaced(tenant, places)
        yield from _deleted_workloads(tenant, record)


def _misplaced(tenant: Tenant, places: dict[str, set[str]]) -> Iterator[Difference]:
    wanted = tenant.world.placements.get(tenant.name)
    for deployment in tenant.deployments:
        name = f"{APPLICATION_PREFIX}{deployment.uid}"
        for place in sorted(places.get(name, set()) - {wanted}):
            text = f"it is in {place}, and the fleet has its tenant in {wanted}"
            yield Difference("differs", f"Application {name}", text, tenant.name)


def _deleted_workloads(tenant: Tenant, record: Record) -> Iterator[Difference]:
    """Of deployments that are there, and whose Application nobody but the product has touched."""
    for deployment in tenant.deployments:
        is_going = deployment.manifest["metadata"].get("deletionTimestamp")
        if deployment.uid in record.history.cascades - record.disturbed and not is_going:
            yield difference_of("lost", deployment.manifest, "all that it had deployed was deleted meanwhile")
