"""What a plan wants written, for one tenant and for a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.domain.events import SweepScope
from services.planner.domain.fleet.placement.assignments import PinKey, TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool, Overload
from services.planner.domain.fleet.remediation.remediation_rows import Remediation, RemedyReport
from services.planner.domain.fleet.reports.report_rows import Installation, InstanceHealth, KeptOrphans
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample, Rollout
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, FleetOrderRecord, Move
from services.planner.domain.state import TenantState
from services.planner.rows.audit import AuditedChange, AuditOutcome, AuditRecord
from services.planner.rows.compiled import (
    ChildRow,
    ChildRowKey,
    EngineAbsence,
    EngineKey,
    EngineRow,
    PendingClaimKey,
    PendingClaimRow,
    WorkspaceKey,
    WorkspaceRow,
)
from services.planner.rows.consumption import ParkedEvent, ParkedTenant, RefusedSweep, SweepPart
from services.planner.rows.tenants import Tenant, TenantName


@dataclass(frozen=True, slots=True)
class Sighting:
    """A CR was seen again, without any change."""

    id: UUID
    resource_version: str
    epoch: int
    dormant: bool = False
    """Whether the CR is dormant, or becomes so."""


@dataclass(frozen=True, slots=True)
class TenantPart:
    """A tenant has something on another instance than its own."""

    tenant_id: UUID
    engine_instance_id: str


class Changes(NamedTuple):
    """What a plan wants written. Each list is in the order in which it shall reach the write-ahead log."""

    tenants: tuple[Tenant, ...] = ()
    tenants_replaced: tuple[Tenant, ...] = ()
    """Tenants that become former ones: all statuses under their names are deleted, and their dormant rows."""
    tenants_gone: tuple[UUID, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    deployments_gone: tuple[UUID, ...] = ()
    parts: tuple[TenantPart, ...] = ()
    """Instances that get a part of a tenant: they must accept tenants."""
    sightings: tuple[Sighting, ...] = ()
    observed: tuple[Observed, ...] = ()
    observed_gone: tuple[UUID, ...] = ()
    forced_deletions: tuple[ForcedDeletion, ...] = ()
    forced_deletions_gone: tuple[UUID, ...] = ()
    plain_resources: tuple[PlainResource, ...] = ()
    plain_resources_gone: tuple[UUID, ...] = ()
    plain_resource_sightings: tuple[Sighting, ...] = ()
    deployments_dormant: tuple[UUID, ...] = ()
    plain_resources_dormant: tuple[UUID, ...] = ()
    """Rows that stay, but are no longer loaded with their tenant."""
    checks: tuple[Check, ...] = ()
    sync_runs: tuple[SyncRun, ...] = ()
    audited_changes: tuple[AuditedChange, ...] = ()
    """Those of ``audit_records`` that are about a change, not about its result."""
    audit_records: tuple[AuditRecord, ...] = ()
    audit_outcomes: tuple[AuditOutcome, ...] = ()
    engine: tuple[EngineRow, ...] = ()
    engine_absent: tuple[EngineAbsence, ...] = ()
    """Rows whose objects shall no longer exist. Nothing else of them changes."""
    engine_departing: tuple[EngineRow, ...] = ()
    """Rows whose objects shall no longer exist, with another manifest. They are written after deployments, which need
    them to be removed."""
    engine_gone: tuple[EngineKey, ...] = ()
    oversized: tuple[EngineKey, ...] = ()
    """Rows that were not written, because their manifest exceeds 1 MiB."""
    workspace: tuple[WorkspaceRow, ...] = ()
    workspace_gone: tuple[WorkspaceKey, ...] = ()
    child_objects: tuple[ChildRow, ...] = ()
    child_objects_gone: tuple[ChildRowKey, ...] = ()
    pending_claims: tuple[PendingClaimRow, ...] = ()
    pending_claims_gone: tuple[PendingClaimKey, ...] = ()
    parked: tuple[ParkedTenant, ...] = ()
    """Tenants whose events are kept until the rule that fails on them works."""
    parked_events: tuple[ParkedEvent, ...] = ()
    unparked: tuple[UUID, ...] = ()
    """Tenants whose kept events have been planned. Their rows are deleted before new ones are written."""
    refused_sweeps: tuple[RefusedSweep, ...] = ()
    """Markers that would have removed an implausible share. Nothing was removed."""
    sweeps_done: tuple[SweepScope, ...] = ()
    """Markers that were refused and no longer are, or that follow such a one in their scope."""
    sweep_parts: tuple[SweepPart, ...] = ()
    """Resources to remove that complete lists lacked, in parts."""
    sweep_parts_done: tuple[int, ...] = ()
    """Numbers of the parts that are done."""
    lists_completed: tuple[SweepScope, ...] = ()
    """The newest marker of each place, refused or not. The log before it holds a whole list."""
    kept_orphans: tuple[KeptOrphans, ...] = ()
    """The orphans that agents reported last."""
    kept_orphans_gone: tuple[str, ...] = ()
    """Ids of instances without orphans."""
    engine_health: tuple[InstanceHealth, ...] = ()
    """The health that agents reported last, or that they report nothing."""
    remediations: tuple[Remediation, ...] = ()
    remedy_reports: tuple[RemedyReport, ...] = ()
    engine_installations: tuple[Installation, ...] = ()
    """The installations that provisioners reported last."""
    engine_clusters: tuple[EngineClusterRow, ...] = ()
    engine_instances: tuple[EngineInstanceRow, ...] = ()
    assignments: tuple[WorkspaceAssignment, ...] = ()
    assignments_gone: tuple[str, ...] = ()
    """Workspaces that are no longer assigned."""
    pins: tuple[TenantPin, ...] = ()
    pins_gone: tuple[PinKey, ...] = ()
    engine_pools: tuple[EnginePool, ...] = ()
    engine_pools_gone: tuple[EnginePool, ...] = ()
    engine_overloads: tuple[Overload, ...] = ()
    engine_overloads_gone: tuple[str, ...] = ()
    """Ids of instances that are no longer overloaded."""
    fleet_orders: tuple[FleetOrderRecord, ...] = ()
    moves_ordered: tuple[Move, ...] = ()
    """Moves that are new, or changed by decisions about the whole fleet: reserved room, and orders to go back."""
    moves: tuple[Move, ...] = ()
    """Moves that changed by what was seen of their tenants."""
    rollouts: tuple[Rollout, ...] = ()
    """Rollouts that are new, or changed."""
    rings_affected: tuple[str, ...] = ()
    """Rings in which other instances than before accept tenants, because of a rollout."""
    engine_samples: tuple[EngineSample, ...] = ()
    """Counts that agents have reported."""

    @property
    def affects_placement(self) -> bool:
        """Whether these changes may place new tenants elsewhere."""
        return bool(self.instances_affected or self.rings_affected or self.affects_rules)

    @property
    def instances_affected(self) -> frozenset[str]:
        """Ids of engine instances that change for placement, except those in :attr:`rings_affected`."""
        return frozenset(
            (
                *(row.id for row in self.engine_instances),
                *(row.engine_instance_id for row in self.engine_health),
                *(row.engine_instance_id for row in self.remediations),
            )
        )

    @property
    def affects_rules(self) -> bool:
        """Whether these changes assign workspaces or pin tenants."""
        return any((self.assignments, self.assignments_gone, self.pins, self.pins_gone))

    @classmethod
    def merged(cls, parts: Iterable[Changes]) -> Changes:
        """The changes of all tenants of a batch. Rows for engines are in the order of their waves."""
        columns: dict[str, list[Any]] = {}
        for part in parts:
            for name, rows in part._asdict().items():
                if rows:
                    columns.setdefault(name, []).extend(rows)
        if "engine" in columns:
            columns["engine"].sort(key=lambda row: (row.wave, row.name))
        return cls(**{name: tuple(rows) for name, rows in columns.items()})


NOTHING = Changes()


@dataclass(frozen=True, slots=True)
class TenantChanges:
    """What a plan changes of one tenant."""

    tenant: Tenant
    written: Changes
    state: TenantState | None
    """The state once the changes are written; None: nothing is left of the tenant."""


@dataclass(frozen=True, slots=True)
class BatchChanges:
    """What a batch changes."""

    tenants: tuple[TenantChanges, ...] = ()
    other: Changes = NOTHING
    """Changes that are not of a tenant that was planned."""
    swept: frozenset[tuple[str, UUID]] = frozenset()
    """Kind and id of resources of these tenants that a complete list did not show."""
    added_load: Mapping[str, int] = field(default_factory=dict)
    """The load that these tenants add to each engine instance (``placement/added_load.py``)."""
    unread: tuple[TenantName, ...] = ()
    """Names of tenants that are loaded again, because the database has rows of them that no plan has made."""

    @property
    def written(self) -> Changes:
        """All changes."""
        return Changes.merged([*(tenant.written for tenant in self.tenants), self.other])
