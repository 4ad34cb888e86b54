"""A tenant: everything that a plan may look at. Never changed, only replaced."""

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
    """The rows of one tenant, but for its dormant ones: those that nothing follows from are looked up when named."""

    tenant: Tenant
    deployments: Mapping[UUID, Deployment] = MappingProxyType({})
    observed: Mapping[UUID, Observed] = MappingProxyType({})
    plain_resources: Mapping[UUID, PlainResource] = MappingProxyType({})
    checks: Mapping[UUID, Check] = MappingProxyType({})
    sync_runs: Mapping[UUID, SyncRun] = MappingProxyType({})
    statuses: Mapping[StatusKey, StoredStatus] = MappingProxyType({})
    forced_deletions: Mapping[UUID, ForcedDeletion] = MappingProxyType({})
    """By the ids of the deployments, which are gone."""
    child_objects: Mapping[ChildKey, ChildRow] = MappingProxyType({})
    """What its namespace shall hold, or shall no longer hold, because of its resources."""
    pending_claims: Mapping[str, PendingClaimRow] = MappingProxyType({})
    """What provisioners of others are asked for, by the uid of the claim."""
    held: Mapping[str, Mapping[EngineObjectKey, EngineObject]] = MappingProxyType({})
    """What each engine instance holds, or shall hold, besides what deployments become; none that holds nothing."""
    basis: object = None
    """What else it was planned from, the last time that all of it was looked at; None: not since it was loaded."""
    move: Move | None = None
    """From one instance to another, from when room is reserved until it is over."""
    admitted_dormant: Mapping[str, int] = MappingProxyType({})
    """How many resources of each kind exist, not beyond its quota, and are dormant."""

    def indexed(self) -> TenantState:
        """The same in tables, which keep what is derived from them."""
        if all(isinstance(rows, IndexedRows) for rows in self.tables().values()):
            return self
        named = {name: IndexedRows.of(getattr(self, name)) for name in TABLES}
        held = {instance: IndexedRows.of(objects) for instance, objects in self.held.items()}
        return self._replace(**named, held=held)  # type: ignore[arg-type]

    def reset_baseline(self) -> None:
        """Make this the state that the next plan is compared with. Called once its differences have been read."""
        for rows in self.tables().values():
            if isinstance(rows, IndexedRows):
                rows.reset_baseline()

    def tables(self) -> Mapping[TableName, Mapping[Any, Any]]:
        """The rows by key: of each field that holds some, and of each instance that holds objects."""
        named: dict[TableName, Mapping[Any, Any]] = {(name, ""): getattr(self, name) for name in TABLES}
        return named | {("held", instance): objects for instance, objects in self.held.items()}

    @property
    def objects(self) -> Mapping[EngineObjectKey, EngineObject]:
        """What the tenant's own instance holds."""
        return self.held_on(self.tenant.engine_instance_id)

    @property
    def elsewhere(self) -> Mapping[EngineObjectKey, EngineObject]:
        """What the other instance of its move holds."""
        if self.move is None or self.move.other == self.tenant.engine_instance_id:
            return NO_OBJECTS
        return self.held_on(self.move.other)

    @property
    def parts(self) -> Mapping[str, int]:
        """How many deployments other instances than the tenant's own have, by instance; none of those without any."""
        return {instance: count for instance, count in index_of(self.deployments, BY_INSTANCE).items() if instance}

    def instance_of(self, known: Deployment) -> str:
        """The instance that a deployment is on."""
        return known.engine_instance_id or self.tenant.engine_instance_id

    def is_moved(self, known: Deployment) -> bool:
        """Whether a deployment is one of those that the tenant's move is about."""
        return self.move is not None and self.instance_of(known) == self.move.holder

    def held_on(self, instance: str) -> Mapping[EngineObjectKey, EngineObject]:
        """What one instance holds."""
        return self.held.get(instance, NO_OBJECTS)

    def on_instance(self, instance: str) -> TenantState:
        """The tenant as if it were there: what that holds is its own."""
        return self._replace(tenant=replace(self.tenant, engine_instance_id=instance))

    def plain_resources_of_kind(self, kind: str) -> Mapping[UUID, PlainResource]:
        """Resources of a kind by id; the same object while none of them changes."""
        if kind == GITOPS_DEPLOYMENT.kind:
            raise ValueError("deployments are no plain resources: they have rows of their own")
        return index_of(self.plain_resources, BY_KIND).get(kind, NO_ROWS)

    def plain_resources_in_order(self, kind: str) -> list[PlainResource]:
        """Resources of a kind, all incarnations, in the order of their creation."""
        return sorted(self.plain_resources_of_kind(kind).values(), key=lambda known: (known.created_at, known.id))

    def find(self, subject: UUID) -> Deployment | PlainResource | None:
        """The deployment or resource with this id."""
        return self.deployments.get(subject) or self.plain_resources.get(subject)

    def ids_named(self, names: Collection[ResourceName]) -> dict[ResourceName, list[UUID]]:
        """Ids of all incarnations of each of these names: one look at all rows, however many names there are."""
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
        """What was made of each resource, and of the tenant itself."""
        return index_of(self.objects, BY_OWNER)

    def objects_of(self, owner: UUID) -> Mapping[EngineObjectKey, EngineObject]:
        """What was made of one; the same object while none of these changes."""
        return self.objects_by_owner().get(owner, NO_OBJECTS)

    def objects_of_kind(self, kind: str) -> Mapping[EngineObjectKey, EngineObject]:
        """What was made of all resources of a kind; the same object while none of these changes."""
        return index_of(self.objects, BY_OWNERS_KIND).get(kind, NO_OBJECTS)

    def child_objects_by_owner(self) -> Mapping[str, Mapping[ChildKey, ChildRow]]:
        """Those of each resource, by its uid."""
        return index_of(self.child_objects, BY_OWNERS_UID)

    def checked_object(self, owner: UUID) -> tuple[EngineObjectKey, EngineObject] | None:
        """The object of a resource that agents check, and its key: the first."""
        return min(self.objects_of(owner).items(), default=None)

    def checked_digest(self, owner: UUID) -> str | None:
        """Digest of that object; None if none shall be held."""
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
        """The same with these objects, too."""
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
        """The same without these objects: they are gone from the engine."""
        return self._holding(IndexedRows.of(self.objects).without(keys))

    def without_statuses(self, *keys: StatusKey) -> TenantState:
        """The same without these statuses."""
        return self._replace(statuses=IndexedRows.of(self.statuses).without(keys))

    def without_forced_deletions(self, *keys: UUID) -> TenantState:
        """The same without these rows."""
        return self._replace(forced_deletions=IndexedRows.of(self.forced_deletions).without(keys))

    def without_child_objects(self, *keys: ChildKey) -> TenantState:
        """The same without these child objects: they are gone."""
        return self._replace(child_objects=IndexedRows.of(self.child_objects).without(keys))

    def without_pending_claims(self, *uids: str) -> TenantState:
        """The same without these rows: nobody is asked for anything any more."""
        return self._replace(pending_claims=IndexedRows.of(self.pending_claims).without(uids))

    def without_incarnations(self, keys: Collection[UUID]) -> TenantState:
        """The same without these deployments and resources, and without what is known of them; statuses stay."""
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
        """The same with these as all objects of its own instance."""
        if objects is self.objects:
            return self
        here = self.tenant.engine_instance_id
        others = {instance: rows for instance, rows in self.held.items() if instance != here}
        return self._replace(held={**others, here: objects} if objects else others)


TableName = tuple[str, str]
"""A field of a tenant that holds rows by key; the instance of those that are by instance."""
TABLES = TenantState._fields[1 : TenantState._fields.index("held")]
"""The fields that hold rows by key."""

BY_KIND: Groups[PlainResource, str] = Groups(lambda known: known.kind)
BY_INSTANCE: Counts[Deployment, str] = Counts(
    lambda known: known.engine_instance_id if known.spec is not None else None
)
"""How many deployments each instance has; empty: the tenant's own."""
NAMED: Counts[PlainResource, tuple[str, str]] = Counts(
    lambda known: (known.kind, known.refers_to) if known.present and known.refers_to else None
)
"""How many resources of each kind name a resource."""
RESOURCES_OVER_QUOTA: Subset[PlainResource] = Subset(lambda known: known.over_quota)
"""Resources beyond the quotas."""
OPEN_RUNS: Subset[PlainResource] = Subset(is_open)
"""Promotion runs that may go on."""
COMPLETE_RUNS: Subset[PlainResource] = Subset(is_complete)
"""Promotion runs that are over: they count to no quota."""
BY_OWNER: Groups[EngineObject, UUID] = Groups(lambda held: held.owner.id)
BY_OWNERS_UID: Groups[ChildRow, str] = Groups(lambda row: row.owner_uid)
BY_OWNERS_KIND: Groups[EngineObject, str] = Groups(lambda held: held.owner.kind)

NO_ROWS: Mapping[UUID, PlainResource] = MappingProxyType({})
NO_OBJECTS: Mapping[EngineObjectKey, EngineObject] = MappingProxyType({})
