"""A tenant: everything that a plan may read. A state is never changed, only replaced."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.promotion_run.rows import is_complete, is_open
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.domain.fleet.rows import Move
from services.planner.domain.indexed_rows import Counts, Groups, IndexedRows, Subset, index_of
from services.planner.rows.compiled import (
    ChildKey,
    ChildRow,
    EngineObject,
    EngineObjectKey,
    PendingClaimRow,
    StatusKey,
    StoredStatus,
)
from services.planner.rows.tenants import ResourceName, Tenant


class TenantState(NamedTuple):
    """The rows of one tenant. Dormant rows, which have no effect, are here only if something names them."""

    tenant: Tenant
    deployments: Mapping[UUID, Deployment] = MappingProxyType({})
    observed: Mapping[UUID, Observed] = MappingProxyType({})
    plain_resources: Mapping[UUID, PlainResource] = MappingProxyType({})
    checks: Mapping[UUID, Check] = MappingProxyType({})
    sync_runs: Mapping[UUID, SyncRun] = MappingProxyType({})
    statuses: Mapping[StatusKey, StoredStatus] = MappingProxyType({})
    forced_deletions: Mapping[UUID, ForcedDeletion] = MappingProxyType({})
    """By the id of the deployment, which is gone."""
    child_objects: Mapping[ChildKey, ChildRow] = MappingProxyType({})
    """Objects that its namespace shall have, or shall no longer have, because of its resources."""
    pending_claims: Mapping[str, PendingClaimRow] = MappingProxyType({})
    """Claims that wait for a provisioner of others, by uid."""
    objects_by_instance: Mapping[str, Mapping[EngineObjectKey, EngineObject]] = MappingProxyType({})
    """The objects that each engine instance has, or shall have, except those of deployments. Instances without any are
    left out."""
    basis: object = None
    """What else the tenant was planned from when all of it was planned last; None: not since it was loaded."""
    move: Move | None = None
    """Its move from one instance to another, from when room is reserved until the move is over."""
    admitted_dormant: Mapping[str, int] = MappingProxyType({})
    """For each kind, how many dormant resources exist within the quota."""

    def indexed(self) -> TenantState:
        """The same rows as :class:`IndexedRows`, which keep what is derived from them."""
        if all(isinstance(rows, IndexedRows) for rows in self.tables().values()):
            return self
        named = {name: IndexedRows.of(getattr(self, name)) for name in TABLES}
        by_instance = {instance: IndexedRows.of(objects) for instance, objects in self.objects_by_instance.items()}
        return self._replace(**named, objects_by_instance=by_instance)  # type: ignore[arg-type]

    def reset_baseline(self) -> None:
        """Compare the next plan with this state. Called once its own differences have been read."""
        for rows in self.tables().values():
            if isinstance(rows, IndexedRows):
                rows.reset_baseline()

    def tables(self) -> Mapping[TableName, Mapping[Any, Any]]:
        """All rows by key, for each field that holds rows, and for each instance that has objects."""
        named: dict[TableName, Mapping[Any, Any]] = {(name, ""): getattr(self, name) for name in TABLES}
        return named | {
            ("objects_by_instance", instance): objects for instance, objects in self.objects_by_instance.items()
        }

    @property
    def objects(self) -> Mapping[EngineObjectKey, EngineObject]:
        """The objects on the tenant's own instance."""
        return self.objects_on(self.tenant.engine_instance_id)

    @property
    def elsewhere(self) -> Mapping[EngineObjectKey, EngineObject]:
        """The objects on the other instance of its move."""
        if self.move is None or self.move.other == self.tenant.engine_instance_id:
            return NO_OBJECTS
        return self.objects_on(self.move.other)

    @property
    def parts(self) -> Mapping[str, int]:
        """How many deployments each other instance than the tenant's own has; instances without any are left out."""
        return {instance: count for instance, count in index_of(self.deployments, BY_INSTANCE).items() if instance}

    def instance_of(self, known: Deployment) -> str:
        """The instance that a deployment is on."""
        return known.engine_instance_id or self.tenant.engine_instance_id

    def is_moved(self, known: Deployment) -> bool:
        """Whether the tenant's move concerns a deployment."""
        return self.move is not None and self.instance_of(known) == self.move.holder

    def objects_on(self, instance: str) -> Mapping[EngineObjectKey, EngineObject]:
        """The objects on one instance."""
        return self.objects_by_instance.get(instance, NO_OBJECTS)

    def on_instance(self, instance: str) -> TenantState:
        """The tenant as if it were on ``instance``: the objects there are its own."""
        return self._replace(tenant=replace(self.tenant, engine_instance_id=instance))

    def plain_resources_of_kind(self, kind: str) -> Mapping[UUID, PlainResource]:
        """Resources of a kind by id. Returns the same object while no row of the kind changes."""
        if kind == GITOPS_DEPLOYMENT.kind:
            raise ValueError("deployments are no plain resources: they have rows of their own")
        return index_of(self.plain_resources, BY_KIND).get(kind, NO_ROWS)

    def plain_resources_in_order(self, kind: str) -> list[PlainResource]:
        """Resources of a kind, of all incarnations, in the order of creation."""
        return sorted(self.plain_resources_of_kind(kind).values(), key=lambda known: (known.created_at, known.id))

    def find(self, subject: UUID) -> Deployment | PlainResource | None:
        """The deployment or resource with this id."""
        return self.deployments.get(subject) or self.plain_resources.get(subject)

    def ids_named(self, names: Collection[ResourceName]) -> dict[ResourceName, list[UUID]]:
        """Ids of all incarnations of each of these names. Iterates the rows once, however many names there are."""
        found: dict[ResourceName, list[UUID]] = {name: [] for name in names}
        deployed = {name for kind, name in names if kind == GITOPS_DEPLOYMENT.kind}
        plain = {name for kind, name in names if kind != GITOPS_DEPLOYMENT.kind}
        for known in self.deployments.values() if deployed else ():
            if known.name in deployed:
                found[GITOPS_DEPLOYMENT.kind, known.name].append(known.id)
        for each in self.plain_resources.values() if plain else ():
            if each.name in plain and (each.kind, each.name) in found:
                found[each.kind, each.name].append(each.id)
        return found

    def secrets(self) -> dict[str, PlainResource]:
        """The Secrets that exist, by name."""
        return {known.name: known for known in self.plain_resources_of_kind(SECRET.kind).values() if known.present}

    def objects_by_owner(self) -> Mapping[UUID, Mapping[EngineObjectKey, EngineObject]]:
        """The objects of each resource, and of the tenant itself."""
        return index_of(self.objects, BY_OWNER)

    def objects_of(self, owner: UUID) -> Mapping[EngineObjectKey, EngineObject]:
        """The objects of one owner. Returns the same object while none of them changes."""
        return self.objects_by_owner().get(owner, NO_OBJECTS)

    def objects_of_kind(self, kind: str) -> Mapping[EngineObjectKey, EngineObject]:
        """The objects of all resources of a kind. Returns the same object while none of them changes."""
        return index_of(self.objects, BY_OWNERS_KIND).get(kind, NO_OBJECTS)

    def child_objects_by_owner(self) -> Mapping[str, Mapping[ChildKey, ChildRow]]:
        """The child objects of each resource, by its uid."""
        return index_of(self.child_objects, BY_OWNERS_UID)

    def checked_object(self, owner: UUID) -> tuple[EngineObjectKey, EngineObject] | None:
        """The first object of a resource, which agents check, with its key; None if it has no object."""
        return min(self.objects_of(owner).items(), default=None)

    def checked_digest(self, owner: UUID) -> str | None:
        """The digest of that object; None if no engine shall have the object."""
        checked = self.checked_object(owner)
        return checked[1].digest if checked is not None and checked[1].is_desired else None

    def with_deployments(self, *rows: Deployment) -> TenantState:
        """The same with these rows."""
        return self._replace(deployments=IndexedRows.of(self.deployments).with_rows({row.id: row for row in rows}))

    def with_observed(self, *rows: Observed) -> TenantState:
        """The same with these rows."""
        return self._replace(observed=IndexedRows.of(self.observed).with_rows({row.deployment_id: row for row in rows}))

    def with_plain_resources(self, *rows: PlainResource) -> TenantState:
        """The same with these rows."""
        return self._replace(
            plain_resources=IndexedRows.of(self.plain_resources).with_rows({row.id: row for row in rows})
        )

    def with_checks(self, *rows: Check) -> TenantState:
        """The same with these rows."""
        return self._replace(checks=IndexedRows.of(self.checks).with_rows({row.resource_id: row for row in rows}))

    def with_sync_runs(self, *rows: SyncRun) -> TenantState:
        """The same with these rows."""
        return self._replace(sync_runs=IndexedRows.of(self.sync_runs).with_rows({row.resource_id: row for row in rows}))

    def with_objects(self, objects: Mapping[EngineObjectKey, EngineObject]) -> TenantState:
        """The same with these objects on its own instance."""
        return self._holding(IndexedRows.of(self.objects).with_rows(objects))

    def with_status(self, key: StatusKey, status: StoredStatus) -> TenantState:
        """The same with this status."""
        return self._replace(statuses=IndexedRows.of(self.statuses).with_rows({key: status}))

    def with_forced_deletions(self, *rows: ForcedDeletion) -> TenantState:
        """The same with these rows."""
        known = IndexedRows.of(self.forced_deletions)
        return self._replace(forced_deletions=known.with_rows({row.id: row for row in rows}))

    def with_child_objects(self, *rows: ChildRow) -> TenantState:
        """The same with these rows."""
        known = IndexedRows.of(self.child_objects)
        return self._replace(child_objects=known.with_rows({row.key: row for row in rows}))

    def with_pending_claims(self, *rows: PendingClaimRow) -> TenantState:
        """The same with these rows."""
        known = IndexedRows.of(self.pending_claims)
        return self._replace(pending_claims=known.with_rows({row.uid: row for row in rows}))

    def without_observed(self, *keys: UUID) -> TenantState:
        """The same without these rows."""
        return self._replace(observed=IndexedRows.of(self.observed).without(keys))

    def without_objects(self, *keys: EngineObjectKey) -> TenantState:
        """The same without these objects, which are gone from the engine."""
        return self._holding(IndexedRows.of(self.objects).without(keys))

    def without_statuses(self, *keys: StatusKey) -> TenantState:
        """The same without these statuses."""
        return self._replace(statuses=IndexedRows.of(self.statuses).without(keys))

    def without_forced_deletions(self, *keys: UUID) -> TenantState:
        """The same without these rows."""
        return self._replace(forced_deletions=IndexedRows.of(self.forced_deletions).without(keys))

    def without_child_objects(self, *keys: ChildKey) -> TenantState:
        """The same without these child objects, which are gone."""
        return self._replace(child_objects=IndexedRows.of(self.child_objects).without(keys))

    def without_pending_claims(self, *uids: str) -> TenantState:
        """The same without these rows: provisioners have nothing to do for these claims."""
        return self._replace(pending_claims=IndexedRows.of(self.pending_claims).without(uids))

    def without_incarnations(self, keys: Collection[UUID]) -> TenantState:
        """The same without these deployments and resources, and without their other rows. Statuses stay."""
        if not keys:
            return self
        return self._replace(
            deployments=IndexedRows.of(self.deployments).without(keys),
            observed=IndexedRows.of(self.observed).without(keys),
            plain_resources=IndexedRows.of(self.plain_resources).without(keys),
            checks=IndexedRows.of(self.checks).without(keys),
            sync_runs=IndexedRows.of(self.sync_runs).without(keys),
        )

    def _holding(self, objects: Mapping[EngineObjectKey, EngineObject]) -> TenantState:
        """The same with ``objects`` as all objects of its own instance."""
        if objects is self.objects:
            return self
        here = self.tenant.engine_instance_id
        others = {instance: rows for instance, rows in self.objects_by_instance.items() if instance != here}
        return self._replace(objects_by_instance={**others, here: objects} if objects else others)


TableName = tuple[str, str]
"""A field of a tenant that holds rows by key; and the instance, for objects."""
TABLES = TenantState._fields[1 : TenantState._fields.index("objects_by_instance")]
"""The fields that hold rows by key."""

BY_KIND: Groups[PlainResource, str] = Groups(lambda known: known.kind)
BY_INSTANCE: Counts[Deployment, str] = Counts(
    lambda known: known.engine_instance_id if known.spec is not None else None
)
"""How many deployments each instance has. The tenant's own instance is the empty string."""
NAMED: Counts[PlainResource, tuple[str, str]] = Counts(
    lambda known: (known.kind, known.refers_to) if known.present and known.refers_to else None
)
"""For each kind and name, how many resources of the kind refer to the name."""
RESOURCES_OVER_QUOTA: Subset[PlainResource] = Subset(lambda known: known.over_quota)
"""Resources beyond the quotas."""
OPEN_RUNS: Subset[PlainResource] = Subset(is_open)
"""Promotion runs that may go on."""
COMPLETE_RUNS: Subset[PlainResource] = Subset(is_complete)
"""Promotion runs that are over: they do not count against the quota."""
BY_OWNER: Groups[EngineObject, UUID] = Groups(lambda row: row.owner.id)
BY_OWNERS_UID: Groups[ChildRow, str] = Groups(lambda row: row.owner_uid)
BY_OWNERS_KIND: Groups[EngineObject, str] = Groups(lambda row: row.owner.kind)

NO_ROWS: Mapping[UUID, PlainResource] = MappingProxyType({})
NO_OBJECTS: Mapping[EngineObjectKey, EngineObject] = MappingProxyType({})
