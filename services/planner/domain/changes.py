"""What a plan wants written, of one tenant and of a batch."""

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
from services.planner.domain.fleet.remediation.remediation_rows import Remediation, ToldRemedy
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
    """A CR was seen again and nothing about it had changed."""

    id: UUID
    resource_version: str
    epoch: int
    dormant: bool = False
    """Whether it is, or becomes so."""


@dataclass(frozen=True, slots=True)
class TenantPart:
    """A tenant has something on another instance than its own."""

    tenant_id: UUID
    engine_instance_id: str


class Changes(NamedTuple):
    """What a plan wants written, each list in the order in which it shall reach the write-ahead log."""

    tenants: tuple[Tenant, ...] = ()
    tenants_replaced: tuple[Tenant, ...] = ()
    """Former ones from now on: all that is shown under their names goes, and their dormant rows."""
    tenants_gone: tuple[UUID, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    deployments_gone: tuple[UUID, ...] = ()
    parts: tuple[TenantPart, ...] = ()
    """Where deployments come to, if it is not their tenant's instance: it must not be closed."""
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
    """They stay, but are not loaded with their tenant any more."""
    checks: tuple[Check, ...] = ()
    sync_runs: tuple[SyncRun, ...] = ()
    audited_changes: tuple[AuditedChange, ...] = ()
    """Those of ``audit_records`` that are of a change, and not of what has become of one."""
    audit_records: tuple[AuditRecord, ...] = ()
    audit_outcomes: tuple[AuditOutcome, ...] = ()
    engine: tuple[EngineRow, ...] = ()
    engine_absent: tuple[EngineAbsence, ...] = ()
    """Rows that stay as they are but for this: their objects shall no longer exist."""
    engine_departing: tuple[EngineRow, ...] = ()
    """The same for rows that are written anew with it, after deployments: those cannot be removed without them."""
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
    """Tenants whose events are kept until a rule that fails on them has been mended."""
    parked_events: tuple[ParkedEvent, ...] = ()
    unparked: tuple[UUID, ...] = ()
    """Tenants whose kept events have been planned; their rows go before new ones come."""
    refused_sweeps: tuple[RefusedSweep, ...] = ()
    """Markers that would have removed an implausible share; nothing was."""
    sweeps_done: tuple[SweepScope, ...] = ()
    """Markers that were refused, or older ones of their scope were, and are not any more."""
    sweep_parts: tuple[SweepPart, ...] = ()
    """What is to be removed of what complete lists lacked."""
    sweep_parts_done: tuple[int, ...] = ()
    """Numbers of the rows of such parts."""
    lists_completed: tuple[SweepScope, ...] = ()
    """The newest marker of each place, refused or not: the log holds the whole list that it ends."""
    kept_orphans: tuple[KeptOrphans, ...] = ()
    """As agents told last."""
    kept_orphans_gone: tuple[str, ...] = ()
    """Ids of instances that have none."""
    engine_health: tuple[InstanceHealth, ...] = ()
    """As agents told last, or that they tell nothing."""
    remediations: tuple[Remediation, ...] = ()
    remedies_told: tuple[ToldRemedy, ...] = ()
    engine_installations: tuple[Installation, ...] = ()
    """As provisioners told last."""
    engine_clusters: tuple[EngineClusterRow, ...] = ()
    engine_instances: tuple[EngineInstanceRow, ...] = ()
    assignments: tuple[WorkspaceAssignment, ...] = ()
    assignments_gone: tuple[str, ...] = ()
    """Workspaces that are assigned to nothing any more."""
    pins: tuple[TenantPin, ...] = ()
    pins_gone: tuple[PinKey, ...] = ()
    engine_pools: tuple[EnginePool, ...] = ()
    engine_pools_gone: tuple[EnginePool, ...] = ()
    engine_overloads: tuple[Overload, ...] = ()
    engine_overloads_gone: tuple[str, ...] = ()
    """Ids of instances that are overloaded no more."""
    fleet_orders: tuple[FleetOrderRecord, ...] = ()
    moves_ordered: tuple[Move, ...] = ()
    """New, or further by what is decided on the whole fleet: room, and orders to go back."""
    moves: tuple[Move, ...] = ()
    """Further by what was seen of their tenants."""
    rollouts: tuple[Rollout, ...] = ()
    """New, or further."""
    rings_affected: tuple[str, ...] = ()
    """Rings of which a rollout has other instances take new tenants than before."""
    engine_samples: tuple[EngineSample, ...] = ()
    """What agents have counted."""

    @property
    def affects_placement(self) -> bool:
        """Whether where new tenants are placed follows from other rows of the fleet than before."""
        return bool(self.instances_affected or self.rings_affected or self.affects_rules)

    @property
    def instances_affected(self) -> frozenset[str]:
        """Ids of engine instances that placement sees otherwise than before, but for :attr:`rings_affected`."""
        return frozenset(
            (
                *(row.id for row in self.engine_instances),
                *(row.engine_instance_id for row in self.engine_health),
                *(row.engine_instance_id for row in self.remediations),
            )
        )

    @property
    def affects_rules(self) -> bool:
        """Whether operators have assigned something else than before."""
        return any((self.assignments, self.assignments_gone, self.pins, self.pins_gone))

    @classmethod
    def merged(cls, parts: Iterable[Changes]) -> Changes:
        """Those of all tenants of a batch; rows for engines in the order of their waves."""
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
    """What becomes of one tenant."""

    tenant: Tenant
    written: Changes
    state: TenantState | None
    """How things stand once that is written; None: nothing is left of the tenant."""


@dataclass(frozen=True, slots=True)
class BatchChanges:
    """What becomes of all tenants of a batch."""

    tenants: tuple[TenantChanges, ...] = ()
    other: Changes = NOTHING
    """What is not of one tenant that was planned."""
    swept: frozenset[tuple[str, UUID]] = frozenset()
    """Kind and id of resources of these tenants that a complete list did not show."""
    added_load: Mapping[str, int] = field(default_factory=dict)
    """By engine instance, what these tenants bring there (``placement/added_load.py``)."""
    unread: tuple[TenantName, ...] = ()
    """Of their tenants the database holds what no plan has made: they are read again."""

    @property
    def written(self) -> Changes:
        """All rows."""
        return Changes.merged([*(tenant.written for tenant in self.tenants), self.other])
