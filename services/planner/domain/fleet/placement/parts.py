"""Which instance a new deployment goes to if its tenant is too large for one, and where a part may not go. Pure.

A tenant is on one instance, its own, until its deployments take up :data:`MOST` of that. From then on the first
deployment of a further environment goes to another instance, where the tenant has a part from then on, and the
environment's later deployments follow it there. Deployments without an environment go to the tenant's own instance.
Those deploy to the engine's own cluster, and a user may change any deployment to one of them. So all instances of a
tenant are in one engine cluster.
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
"""The share of an instance's capacity that one tenant takes up before it is split: what an instance is to carry."""


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
        Id of the tenant's own instance if that has room; or else of one with a part of the tenant and room; or else of
        another instance. If there is none, of its own.
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
    """Why no part of a split tenant may go from one instance to another; empty if it may."""
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
        others: ids of the other instances that the tenant is on.
        own: id of the tenant's own instance, which a part may go to although the tenant is there.
        tenant: its name.
    """
    if target == own or target not in others:
        return ""
    return f"engine instance {target} has a part of tenant {'/'.join(tenant)} already"


def _other_instances(tenant: Tenant, own: PlacementCandidate, fleet: PlacementView) -> list[PlacementCandidate]:
    """Instances in the same cluster besides its own that accept the tenant, in the order of their ids."""
    alike = [each for each in fleet.usable if (each.engine, each.engine_cluster) == (own.engine, own.engine_cluster)]
    affinity = fleet.rules.affinity(tenant.workspace).among(alike)
    found = (each for each in alike if each.id != own.id and each.accepting and not each.unready)
    return sorted((each for each in found if affinity.admits(each)), key=lambda each: each.id)
