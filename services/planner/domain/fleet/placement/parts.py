"""Which instance a new deployment of a tenant goes to, if the tenant is too large for one: split by environment. Pure.

And where what a split tenant has on one instance may not go.

A tenant stays on one instance, its own, until its deployments take up :data:`MOST` of that. From then on deployments of
an environment that has none yet go to another instance, where the tenant has a part from then on, and those that come
later go with them. Those without an environment go to the tenant's own instance. A user may change any of them to one
without: then it deploys to the engine's own cluster. So all instances of a tenant are in one engine cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from services.planner.domain.fleet.placement.placement import first_within_bound, order_of, passed_over
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant, TenantName

MOST = 0.7
"""Of an instance's capacity: what one tenant has there at most. An overloaded instance is brought to as much."""


def has_room(instance: PlacementCandidate, deployments: int) -> bool:
    """Whether a tenant with so many deployments there may have one more."""
    return deployments < MOST * instance.capacity


def part_for(environment: UUID, tenant: Tenant, parts: Mapping[str, int], fleet: PlacementView) -> str:
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
    if has_room(own, parts.get(own.id, 0)):
        return own.id
    others = _other_instances(tenant, own, fleet)
    for instance in others:
        if instance.id in parts and has_room(instance, parts[instance.id]):
            return instance.id
    down = passed_over(fleet.usable)
    free = [each for each in others if each.id not in parts and each.id not in down]
    return first_within_bound(order_of(environment, free), fleet.load).id if free else own.id


def refusal_of_cluster(
    source: PlacementCandidate | EngineInstanceRow, target: PlacementCandidate | EngineInstanceRow
) -> str:
    """Why nothing of a split tenant may go from one instance to another; empty if it may."""
    if source.engine_cluster == target.engine_cluster:
        return ""
    return (
        f"engine instance {target.id} is in cluster {target.engine_cluster}, and the tenant has parts on several "
        f"instances of {source.engine_cluster}"
    )


def refusal_of_part(target: str, others: Collection[str], own: str, tenant: TenantName) -> str:
    """Why what a tenant has on one instance may not go to ``target``; empty if it may.

    Args:
        target: id of the instance.
        others: those that the tenant is on besides.
        own: the tenant's own: only there may a part go though others of its deployments are there.
        tenant: its name.
    """
    if target == own or target not in others:
        return ""
    return f"engine instance {target} has a part of tenant {'/'.join(tenant)} already"


def _other_instances(tenant: Tenant, own: PlacementCandidate, fleet: PlacementView) -> list[PlacementCandidate]:
    """Those beside its own, in the same cluster, that accept and may have the tenant, by their ids."""
    alike = [each for each in fleet.usable if (each.engine, each.engine_cluster) == (own.engine, own.engine_cluster)]
    affinity = fleet.rules.affinity(tenant.workspace).among(alike)
    found = (each for each in alike if each.id != own.id and each.accepting and not each.unready)
    return sorted((each for each in found if affinity.admits(each)), key=lambda each: each.id)
