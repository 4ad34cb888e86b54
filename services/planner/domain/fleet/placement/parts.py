"""Which instance a new deployment of a tenant goes to, if the tenant is too large for one: split by environment. Pure.

A tenant stays on one instance, its own, until its deployments take up :data:`MOST` of that. From then on deployments of
an environment that has none yet go to another instance, where the tenant has a part from then on, and those that come
later go with them. Those without an environment go to the tenant's own instance. A user may change any of them to one
without: then it deploys to the engine's own cluster. So all instances of a tenant are in one engine cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from services.planner.domain.fleet.placement.placement import first_within_bound, order_of, passed_over
from services.planner.domain.fleet.view import FleetView
from services.planner.rows import EngineInstance, Tenant

MOST = 0.7
"""Of an instance's capacity: what one tenant has there at most. An overloaded instance is brought to as much."""


def has_room(instance: EngineInstance, deployments: int) -> bool:
    """Whether a tenant with so many deployments there may have one more."""
    return deployments < MOST * instance.capacity


def part_for(environment: UUID, tenant: Tenant, parts: Mapping[str, int], fleet: FleetView) -> str:
    """The instance for the first deployment of an environment.

    Args:
        environment: its id.
        tenant: whose it is.
        parts: how many deployments the tenant has on each instance, its own included.
        fleet: all instances, and what they carry.

    Returns:
        Its own if that has room, or else one where the tenant has a part that has, or else another one. If there is
        none, its own.
    """
    own = fleet.instances[tenant.engine_instance_id]
    known = [own, *(fleet.instances[each] for each in sorted(parts) if each != own.id and each in fleet.instances)]
    for instance in known:
        if has_room(instance, parts.get(instance.id, 0)) and (instance is own or instance.accepting):
            return instance.id
    others = [each for each in _candidates(tenant, own, fleet) if each.id not in parts]
    return first_within_bound(order_of(environment, others), fleet.load).id if others else own.id


def _candidates(tenant: Tenant, own: EngineInstance, fleet: FleetView) -> Iterator[EngineInstance]:
    """Those beside its own, in the same cluster, that may have the tenant."""
    down, affinity = passed_over(fleet.usable), fleet.rules.affinity(tenant.workspace)
    for each in fleet.usable:
        is_alike = (each.engine, each.engine_cluster) == (own.engine, own.engine_cluster) and each.id != own.id
        if is_alike and each.accepting and not each.unready and each.id not in down and affinity.admits(each):
            yield each
