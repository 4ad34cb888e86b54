"""A tenant: everything that a plan may look at. Never changed, only replaced."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from services.common.api_resource import SECRET
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.shared.rows import Check, Resource
from services.kinds.sync_run.rows import SyncRun
from services.planner.rows import EngineObject, ObjectKey, StatusKey, StoredStatus, Tenant


class TenantState(NamedTuple):
    """The rows of one tenant, but for its dormant ones: those that nothing follows from are looked up when named."""

    tenant: Tenant
    deployments: Mapping[UUID, Deployment] = MappingProxyType({})
    observed: Mapping[UUID, Observed] = MappingProxyType({})
    resources: Mapping[UUID, Resource] = MappingProxyType({})
    checks: Mapping[UUID, Check] = MappingProxyType({})
    sync_runs: Mapping[UUID, SyncRun] = MappingProxyType({})
    objects: Mapping[ObjectKey, EngineObject] = MappingProxyType({})
    """What its engine holds, or shall hold, besides what each deployment becomes."""
    statuses: Mapping[StatusKey, StoredStatus] = MappingProxyType({})
    basis: object = None
    """What else it was planned from, the last time that all of it was looked at; None: not since it was loaded."""

    def of_kind(self, kind: str) -> list[Resource]:
        """Resources of a kind, all incarnations, in the order of their creation."""
        found = [known for known in self.resources.values() if known.kind == kind]
        return sorted(found, key=lambda known: (known.created_at, known.id))

    def find(self, subject: UUID) -> Deployment | Resource | None:
        """The deployment or resource with this id."""
        return self.deployments.get(subject) or self.resources.get(subject)

    def named(self, kind: str, name: str) -> list[Deployment | Resource]:
        """All incarnations of a name."""
        if kind == GITOPS_DEPLOYMENT.kind:
            return [known for known in self.deployments.values() if known.name == name]
        return [known for known in self.resources.values() if known.name == name and known.kind == kind]

    def secrets(self) -> dict[str, Resource]:
        """The Secrets that exist, by name."""
        return {known.name: known for known in self.resources.values() if known.kind == SECRET.kind and known.present}

    def objects_by_owner(self) -> dict[UUID, list[ObjectKey]]:
        """What was made of each environment and credential."""
        found: dict[UUID, list[ObjectKey]] = {}
        for key, held in self.objects.items():
            if held.owner is not None:
                found.setdefault(held.owner, []).append(key)
        return found

    def wanted_digest(self, key: ObjectKey) -> str | None:
        """Digest of an object that shall be held; None if it shall not."""
        held = self.objects.get(key)
        return held.digest if held is not None and held.wanted else None

    def with_deployments(self, *rows: Deployment) -> TenantState:
        """The same with these rows."""
        return self._replace(deployments={**self.deployments, **{row.id: row for row in rows}})

    def with_resources(self, *rows: Resource) -> TenantState:
        """The same with these rows."""
        return self._replace(resources={**self.resources, **{row.id: row for row in rows}})

    def with_checks(self, *rows: Check) -> TenantState:
        """The same with these rows."""
        return self._replace(checks={**self.checks, **{row.resource_id: row for row in rows}})

    def with_sync_runs(self, *rows: SyncRun) -> TenantState:
        """The same with these rows."""
        return self._replace(sync_runs={**self.sync_runs, **{row.resource_id: row for row in rows}})

    def with_objects(self, objects: Mapping[ObjectKey, EngineObject]) -> TenantState:
        """The same with these objects, too."""
        return self._replace(objects={**self.objects, **objects})

    def without_objects(self, *keys: ObjectKey) -> TenantState:
        """The same without these objects: they are gone from the engine."""
        return self._replace(objects={key: held for key, held in self.objects.items() if key not in keys})


TABLES = TenantState._fields[1:-1]
"""The fields that hold rows by key."""
