"""The engine instances that tenants are placed on. Read-only: where tenants meet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from services.common.errors import Wait
from services.planner.domain.ids import tenant_id
from services.planner.engines.interface import Engine, Placement
from services.planner.rows import EngineInstance, Tenant


@dataclass(frozen=True, slots=True)
class FleetView:
    """All instances, and the engines that they run."""

    instances: Mapping[str, EngineInstance]
    engines: Mapping[str, Engine]
    """By the name that instances have for them. Of an instance with another engine only the namespace counts."""
    placements: Mapping[UUID, str] = field(default_factory=dict)
    """Of tenants that are not known and were placed before the database was lost: their instances' ids."""

    @property
    def usable(self) -> list[EngineInstance]:
        """Instances whose engine this build knows: tenants can be placed on them."""
        return [instance for instance in self.instances.values() if instance.engine in self.engines]

    @property
    def unknown(self) -> list[EngineInstance]:
        """The others, such as one that a newer build has added: a tenant on them cannot be planned."""
        return [instance for instance in self.instances.values() if instance.engine not in self.engines]

    def placement(self, tenant: Tenant) -> Placement:
        """Where the tenant's objects are."""
        return Placement(tenant, self.instances[tenant.engine_instance_id])

    def instance_for(self, tenant: Tenant) -> EngineInstance:
        """Where a tenant that is not known belongs: where it was, or else by its id. Raises Wait if there is none.

        One of before namespaces' uids were told was there by the id of its names, which is another by now.
        """
        of_names = tenant_id(tenant.workspace, tenant.namespace)
        before = self.placements.get(tenant.id) or self.placements.get(of_names, "")
        known = self.instances.get(before)
        return known if known is not None else place(tenant, self.usable)

    def engine(self, tenant: Tenant) -> Engine:
        """The engine of the tenant's instance. Raises KeyError if this build does not know it."""
        return self.engines[self.instances[tenant.engine_instance_id].engine]

    def is_engine_namespace(self, namespace: str) -> bool:
        """Whether an instance watches this namespace."""
        return any(namespace == instance.namespace for instance in self.instances.values())


def place(tenant: Tenant, instances: Iterable[EngineInstance]) -> EngineInstance:
    """The accepting instance with the highest hash together with the tenant (rendezvous hashing).

    Even over instances, the same at every call, and adding an instance moves no more than its own share. One that is
    dedicated to the tenant's workspace comes before those that are shared; one that is another's is never taken.
    While none accepts, any will do: to refuse a new tenant would hold up its whole partition.
    Raises Wait if there is no instance for it at all.
    """
    known = [instance for instance in instances if instance.dedicated_to in ("", tenant.workspace)]
    accepting = [instance for instance in known if instance.accepting] or known
    candidates = [instance for instance in accepting if instance.dedicated_to] or accepting
    if not candidates:
        raise Wait("there is no engine instance for it; add one with 'gitopsctl engines add'")
    return max(candidates, key=lambda instance: _score(tenant.id, instance.id))


def _score(tenant: UUID, instance: str) -> tuple[bytes, str]:
    return hashlib.blake2b(tenant.bytes + instance.encode(), digest_size=16).digest(), instance
