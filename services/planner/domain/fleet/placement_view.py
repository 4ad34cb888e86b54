"""The engine instances that tenants are placed on. Read-only: where tenants meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from services.common.errors import Wait
from services.planner.domain.fleet.placement.assignments import PlacementRules
from services.planner.domain.fleet.placement.placement import place
from services.planner.domain.ids import tenant_id
from services.planner.engines.interface import Engine, Placement
from services.planner.rows.fleet import PlacementCandidate
from services.planner.rows.tenants import Tenant


@dataclass(frozen=True, slots=True)
class PlacementView:
    """All instances, and the engines that they run."""

    instances: Mapping[str, PlacementCandidate]
    engines: Mapping[str, Engine]
    """By the name that instances have for them. Of an instance with another engine only the namespace counts."""
    placements: Mapping[UUID, str] = field(default_factory=dict)
    """Of tenants that are not known and were placed before the database was lost, and of their deployments that were on
    another instance: ids of instances. Empty but in a rebuild."""
    load: Mapping[str, int] = field(default_factory=dict)
    """What instances carry, by their ids: as measured last, and what our own plans have added since."""
    rules: PlacementRules = field(default_factory=PlacementRules)
    """What operators have assigned: of tenants that were asked for as it is now, of others as read last."""
    to_move: frozenset[UUID] = frozenset()
    """Tenants with a move that is ordered and has not begun, which is not in their rows: of those about to be split."""

    @property
    def usable(self) -> list[PlacementCandidate]:
        """Instances whose engine this build knows: tenants can be placed on them."""
        return [each for each in self.instances.values() if each.engine in self.engines and not each.retired]

    @property
    def unknown(self) -> list[PlacementCandidate]:
        """The others, such as one that a newer build has added: a tenant on them cannot be planned."""
        return [instance for instance in self.instances.values() if instance.engine not in self.engines]

    def with_added_load(self, added: Mapping[str, int]) -> PlacementView:
        """With so much more load on each of these instances; the very same if there is none."""
        if not any(added.values()):
            return self
        return replace(self, load={**self.load, **{each: self.load.get(each, 0) + added[each] for each in added}})

    def is_there(self, instance: str) -> bool:
        """Whether anything may come to an instance: there is one of this id, and it is not retired."""
        return instance in self.instances and not self.instances[instance].retired

    def placement(self, tenant: Tenant) -> Placement:
        """The tenant, with the instance that has its objects."""
        return Placement(tenant, self.instances[tenant.engine_instance_id])

    def instance_for(self, tenant: Tenant, preferred: Collection[str] = ()) -> PlacementCandidate:
        """Where a tenant that is not known belongs: where it was, where it is pinned to, or else by its id.

        By that it is in one of the ``preferred`` engine clusters, if any instance there may have it.

        Raises Wait if there is no instance for it, or if it is pinned to one that was never ready.

        A tenant from before watchers reported namespaces' uids was placed by the id of its names, which differs by now.
        """
        of_names = tenant_id(tenant.workspace, tenant.namespace)
        before = self.placements.get(tenant.id) or self.placements.get(of_names, "")
        pinned = self.rules.pinned_to(tenant.full_name)
        known = next((each for each in (before, pinned) if self.is_there(each)), None)
        if known is None:
            return place(tenant, self.usable, self.load, self.rules.affinity(tenant.workspace), preferred)
        if self.instances[known].unready:
            raise Wait(f"engine instance {known}, where it belongs, is not ready")
        return self.instances[known]

    def has_instance_for(self, tenant: Tenant) -> bool:
        """Whether a tenant that is not known can be placed."""
        try:
            self.instance_for(tenant)
        except Wait:
            return False
        return True

    def engine(self, tenant: Tenant) -> Engine:
        """The engine of the tenant's instance. Raises KeyError if this build does not know it."""
        return self.engines[self.instances[tenant.engine_instance_id].engine]

    def is_engine_namespace(self, engine_cluster: str, namespace: str) -> bool:
        """Whether an instance watches this namespace of a cluster: one of that name elsewhere is another."""
        place = (engine_cluster, namespace)
        return any(place == (instance.engine_cluster, instance.namespace) for instance in self.instances.values())
