"""The planner's database as plain dictionaries: what the real session must do, in the fewest words."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from services.common.kafka import DEFAULT_ENGINE_CLUSTER
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database.load import Loaded
from services.planner.domain.audit import PLACEMENT, RESTORED_ACTOR
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.dormancy import Lookup, is_admitted, with_loaded_dormant
from services.planner.domain.events import Due, Event, MoveDue, SweepDue, SweepPlace, SweepScope
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.reports.report_rows import InstanceHealth, KeptOrphans
from services.planner.domain.fleet.rows import Move
from services.planner.domain.parked_statuses import LeftStatus, shows_parked
from services.planner.domain.policy import Policy
from services.planner.domain.state import TABLES, TenantState
from services.planner.domain.sweeps import SweepFound, scope_of, subjects_of
from services.planner.engines.available import ENGINES
from services.planner.engines.interface import Engine
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.coalesce import coalesce
from services.planner.rows.audit import AuditRecord
from services.planner.rows.compiled import (
    ChildRow,
    EngineObject,
    EngineObjectKey,
    EngineRow,
    Owner,
    PendingClaimRow,
    StoredStatus,
    WorkspaceRow,
)
from services.planner.rows.consumption import ParkedEvent, ParkedTenant, RefusedSweep, SweepPart
from services.planner.rows.fleet import DEFAULT_ENGINE, PlacementCandidate
from services.planner.rows.tenants import Tenant, TenantName
from tests.unit.planner.given import at

FLEET = tuple(
    PlacementCandidate(
        f"engine-{number}",
        f"argocd-{number}",
        accepting=True,
        engine=DEFAULT_ENGINE,
        capacity=2500,
        engine_cluster=DEFAULT_ENGINE_CLUSTER,
    )
    for number in (1, 2)
)
NOW = at(1_000_000)
WRITTEN = (
    "tenants", "deployments", "observed", "resources", "checks", "sync_runs", "dormant", "audit_records", "engine",
    "workspace", "refused_sweeps", "sweep_parts", "complete_lists", "parked", "parked_events", "forced_deletions",
    "kept_orphans", "moves", "engine_health", "child_objects", "pending_claims",
)  # fmt: skip


@dataclass
class World:
    """Rows by key, and the tenants that a planner would keep in memory."""

    fleet: Sequence[PlacementCandidate] = FLEET
    policy: Policy = field(default_factory=Policy)
    engines: Mapping[str, Engine] = field(default_factory=lambda: ENGINES)
    tenants: dict[UUID, Tenant] = field(default_factory=dict)
    deployments: dict[UUID, Deployment] = field(default_factory=dict)
    observed: dict[UUID, Observed] = field(default_factory=dict)
    resources: dict[UUID, PlainResource] = field(default_factory=dict)
    checks: dict[UUID, Check] = field(default_factory=dict)
    sync_runs: dict[UUID, SyncRun] = field(default_factory=dict)
    dormant: set[UUID] = field(default_factory=set)
    audit_records: dict[UUID, AuditRecord] = field(default_factory=dict)
    engine: dict[tuple[str, str, str, str], EngineRow] = field(default_factory=dict)
    workspace: dict[tuple[str, str, str, str], WorkspaceRow] = field(default_factory=dict)
    refused_sweeps: dict[SweepPlace, RefusedSweep] = field(default_factory=dict)
    sweep_parts: dict[int, SweepPart] = field(default_factory=dict)
    complete_lists: dict[SweepPlace, int] = field(default_factory=dict)
    """Epoch of the newest of each place."""
    parked: dict[UUID, ParkedTenant] = field(default_factory=dict)
    parked_events: list[ParkedEvent] = field(default_factory=list)
    forced_deletions: dict[UUID, ForcedDeletion] = field(default_factory=dict)
    kept_orphans: dict[str, KeptOrphans] = field(default_factory=dict)
    moves: dict[UUID, Move] = field(default_factory=dict)
    engine_health: dict[str, InstanceHealth] = field(default_factory=dict)
    child_objects: dict[tuple[str, str, str, str], ChildRow] = field(default_factory=dict)
    pending_claims: dict[tuple[str, str, str, str], PendingClaimRow] = field(default_factory=dict)
    later: timedelta = timedelta(0)
    """How much time has passed."""
    memory: dict[UUID, TenantState] = field(default_factory=dict)
    _before: dict[str, Any] = field(default_factory=dict)
    _parts_decided: int = 0
    _touched: set[UUID] = field(default_factory=set)
    """Tenants that were written since the last commit."""

    def take(self, *events: Event) -> Changes:
        """One batch, and all that it leaves to be removed: what was written, one after another."""
        written = [self.take_batch(*events), *self.take_due_sweeps()]
        return Changes.merged(written)._replace(sweep_parts=(), sweep_parts_done=())

    def take_batch(self, *events: Event) -> Changes:
        """One batch: what its parts wrote, one after another."""
        written = []
        for part in split_at_markers(coalesce(events)):
            changes = plan_batch(part, self, self.policy, NOW + self.later)
            self.save_changes(changes)
            written.append(changes.written)
        return Changes.merged(written)

    # What a batch asks of the database

    def load_tenants(self, wanted: Collection[TenantName]) -> Loaded:
        """Tenants in memory come from there, and the database is not asked whether they are parked."""
        known = {name: [row.id for row in self.tenants.values() if row.full_name == name] for name in wanted}
        states = {name: [self.memory.get(each) or self.state(each) for each in ids] for name, ids in known.items()}
        for parked in self.parked.values():
            if parked.full_name in wanted and parked.tenant_id not in self.tenants:
                new = Tenant(parked.tenant_id, *parked.full_name, parked.partition, "")
                states[parked.full_name].append(TenantState(new))
        return Loaded(states, frozenset(self.parked.keys() - self.memory.keys()), self.view)

    def look_up_dormant(
        self, states: Mapping[UUID, TenantState], lookups: Mapping[UUID, Lookup]
    ) -> Mapping[UUID, TenantState]:
        return {known: self._with_dormant(state, lookups[known]) for known, state in states.items()}

    def find_unseen(self, scopes: Sequence[SweepScope]) -> Mapping[SweepScope, SweepFound]:
        return {scope: self._unseen(scope) for scope in scopes}

    def find_unseen_of(self, part: SweepPart) -> Mapping[UUID, TenantName]:
        rows = [self.deployments.get(each) or self.resources.get(each) for each in subjects_of(part)]
        unseen = [row for row in rows if row is not None and row.present and row.epoch < part.epoch]
        return {row.id: self.tenants[row.tenant_id].full_name for row in unseen}

    def find_newest_lists(self, places: Collection[SweepPlace]) -> Mapping[SweepPlace, int]:
        return {place: epoch for place, epoch in self.complete_lists.items() if place in places}

    def find_engine_clusters(self, instances: Collection[str]) -> Mapping[str, str]:
        return {each.id: each.engine_cluster for each in self.fleet if each.id in instances}

    def find_tenants_to_move(self, tenants: Collection[UUID]) -> frozenset[UUID]:
        waiting = (each for each in self.moves.values() if each.step in ("ordered", "reserved"))
        return frozenset(each.tenant_id for each in waiting if each.tenant_id in tenants)

    @property
    def fleet_reader(self) -> World:
        """It reads only what reports are about: nobody orders anything of the instances of a world."""
        return self

    def load_kept_orphans(self, instances: Collection[str]) -> Mapping[str, KeptOrphans]:
        return {each: self.kept_orphans[each] for each in instances if each in self.kept_orphans}

    def load_engine_health(self, instances: Collection[str]) -> Mapping[str, InstanceHealth]:
        return {each: self.engine_health[each] for each in instances if each in self.engine_health}

    @property
    def resources_audited(self) -> list[AuditRecord]:
        """The audit without where tenants were placed."""
        return [each for each in self.audit_records.values() if each.kind != PLACEMENT]

    @property
    def view(self) -> PlacementView:
        return PlacementView({instance.id: instance for instance in self.fleet}, self.engines)

    def state(self, known: UUID) -> TenantState:
        """A tenant as it is in the database."""
        deployments = {each.id: each for each in self.deployments.values() if self._is_loaded(each, known)}
        resources = {each.id: each for each in self.resources.values() if self._is_loaded(each, known)}
        dormant = [each for each in self.resources.values() if each.tenant_id == known and each.id in self.dormant]
        counts = Counter(each.kind for each in dormant if is_admitted(each))
        return self._state(known, deployments, resources)._replace(admitted_dormant=counts)

    def _is_loaded(self, row: Deployment | PlainResource, tenant: UUID) -> bool:
        return row.tenant_id == tenant and row.id not in self.dormant

    def _state(
        self, known: UUID, deployments: dict[UUID, Deployment], resources: dict[UUID, PlainResource]
    ) -> TenantState:
        tenant = self.tenants[known]
        begun = (each for each in self.moves.values() if not each.is_over and each.step != "ordered")
        move = next((each for each in begun if each.tenant_id == known), None)
        names = {(GITOPS_DEPLOYMENT.kind, each.name) for each in deployments.values()}
        names |= {(each.kind, each.name) for each in resources.values()}
        return TenantState(
            tenant,
            deployments=deployments,
            observed={each: row for each, row in self.observed.items() if each in deployments},
            plain_resources=resources,
            checks={each: row for each, row in self.checks.items() if each in resources},
            sync_runs={each: row for each, row in self.sync_runs.items() if each in resources},
            objects_by_instance=self._held(known),
            move=move,
            statuses={
                key[2:]: StoredStatus(row.uid, row.generation, row.status, row.release_finalizer)
                for key, row in self.workspace.items()
                if key[:2] == tenant.full_name and key[2:] in names and not tenant.is_former
            },
            forced_deletions={each.id: each for each in self.forced_deletions.values() if each.tenant_id == known},
            child_objects={
                row.key: row
                for key, row in self.child_objects.items()
                if key[:2] == tenant.full_name and not tenant.is_former
            },
            pending_claims={
                row.uid: row
                for key, row in self.pending_claims.items()
                if key[:2] == tenant.full_name and not tenant.is_former
            },
        )

    def _held(self, known: UUID) -> dict[str, dict[EngineObjectKey, EngineObject]]:
        lane, found = self.view.engine(self.tenants[known]).lane(known), defaultdict[str, dict[Any, Any]](dict)
        for row in self.engine.values():
            if row.lane == lane and row.owner_kind != GITOPS_DEPLOYMENT.kind:
                size, owner = len(row.manifest.encode()), Owner(row.owner_kind, row.owner_id)
                held = EngineObject(row.desired == "present", row.digest, size, owner)
                found[row.engine_instance_id][row.kind, row.name] = held
        return found

    def _with_dormant(self, state: TenantState, lookup: Lookup) -> TenantState:
        tenant = state.tenant.id
        sleeping = [each for each in self.deployments.values() if each.tenant_id == tenant and each.id in self.dormant]
        deployments = {
            each.id: each
            for each in sleeping
            if each.id in lookup.ids or (GITOPS_DEPLOYMENT.kind, each.name) in lookup.names
        }
        others = [each for each in self.resources.values() if each.tenant_id == tenant and each.id in self.dormant]
        refused = sorted((each for each in others if each.over_quota), key=lambda each: (each.created_at, each.id))
        of_kind = ([each for each in refused if each.kind == kind][:count] for kind, count in lookup.waiting)
        waiting = {each.id for oldest in of_kind for each in oldest}
        resources = {
            each.id: each
            for each in others
            if each.id in lookup.ids or (each.kind, each.name) in lookup.names or each.id in waiting
        }
        if not deployments and not resources:
            return state
        more = self._state(tenant, deployments, resources)
        found = state._replace(**{name: {**getattr(state, name), **getattr(more, name)} for name in TABLES})
        return with_loaded_dormant(found, state)

    def _unseen(self, scope: SweepScope) -> SweepFound:
        of_kind = [known for known in self.resources.values() if known.kind == scope.kind]
        rows: Sequence[Deployment | PlainResource] = (
            list(self.deployments.values()) if scope.kind == GITOPS_DEPLOYMENT.kind else of_kind
        )
        tenants = {each.id: self.tenants[each.tenant_id] for each in rows}
        rows = [each for each in rows if each.tenant_id not in self.parked]
        known = [each for each in rows if each.present and tenants[each.id].partition == scope.partition]
        unseen = {
            each.id: (tenants[each.id].workspace, tenants[each.id].namespace)
            for each in known
            if each.epoch < scope.epoch
        }
        parked = [each for each in self.parked.values() if each.partition == scope.partition]
        names = tuple((each.workspace, each.namespace) for each in parked)
        parts = [each for each in self.sweep_parts.values() if scope_of(each).place == scope.place]
        decided = {subject for part in parts for subject in subjects_of(part)}
        return SweepFound(len(known), unseen, names, self.refused_sweeps.get(scope.place)).without(decided)

    def shown_of(self, tenant: UUID) -> list[Event]:
        """Timer events of its custom resources."""
        rows = (*self.deployments.values(), *self.resources.values())
        ours = [row for row in rows if row.tenant_id == tenant and row.present and row.id not in self.dormant]
        known = self.tenants.get(tenant)
        return [Event(Due(known.workspace, known.namespace, row.id), 0, "") for row in ours if known is not None]

    def find_parked_statuses(self, tenant: ParkedTenant) -> list[LeftStatus]:
        if tenant.tenant_id in self.tenants and self.tenants[tenant.tenant_id].is_former:
            return []
        rows = (*self.deployments.values(), *self.resources.values())
        uids = {row.uid for row in rows if row.tenant_id == tenant.tenant_id and row.present}
        return [
            (key[2:], StoredStatus(row.uid, row.generation, row.status, row.release_finalizer), row.uid in uids)
            for key, row in self.workspace.items()
            if key[:2] == (tenant.workspace, tenant.namespace) and shows_parked(row.status)
        ]

    # What becomes of it

    def save_changes(self, changes: BatchChanges) -> None:
        """Write ``changes``, and commit."""
        self.write_changes(changes)
        self._before = {}
        for known in self._touched & self.memory.keys():
            self._check_memory(known)
        self._touched = set()

    def abandon_transaction(self) -> None:
        """Nothing that was written since the last commit stays."""
        self.memory.clear()
        self._touched = set()
        for name, rows in self._before.items():
            setattr(self, name, rows)
        self._before = {}

    def write_changes(self, changes: BatchChanges) -> None:
        self._before = self._before or {name: copy(getattr(self, name)) for name in WRITTEN}
        self.apply(changes.written)
        for tenant in changes.tenants:
            self.memory.pop(tenant.tenant.id, None)
            if tenant.state is not None:
                tenant.state.reset_baseline()
                self.memory[tenant.tenant.id] = tenant.state
            self._touched.add(tenant.tenant.id)
        unread = {*changes.unread, *(parked.full_name for parked in changes.other.parked)}
        _drop(self.memory, [each for each, row in self.tenants.items() if row.full_name in unread])

    def _check_memory(self, known: UUID) -> None:
        """What is kept in memory is what would be read; dormant rows that were looked up may be among it."""
        kept = self.memory[known]
        read = self._with_dormant(self.state(known), Lookup(frozenset([*kept.deployments, *kept.plain_resources])))
        assert kept.move is None or kept.move == read.move  # that room is reserved comes by the clock
        for name in ("tenant", *TABLES, "objects_by_instance", "admitted_dormant"):
            assert getattr(kept, name) == getattr(read, name), name

    def apply(self, changes: Changes) -> None:
        _drop(self.parked, changes.unparked)
        self.parked_events = [row for row in self.parked_events if row.tenant_id not in changes.unparked]
        self.parked |= {row.tenant_id: row for row in changes.parked}
        self.parked_events += changes.parked_events
        self._apply_sweeps(changes)
        self._apply_of_instances(changes)
        self._apply_replaced(changes)
        self.moves |= {row.id: row for row in (*changes.moves_ordered, *changes.moves)}
        _drop(self.observed, changes.observed_gone)
        self.tenants |= {row.id: row for row in changes.tenants}
        assert all(self.deployments.get(row.id, row).tenant_id == row.tenant_id for row in changes.deployments)
        assert all(self.resources.get(row.id, row).tenant_id == row.tenant_id for row in changes.plain_resources)
        self.deployments |= {row.id: row for row in changes.deployments}
        for seen in changes.sightings:
            known = self.deployments[seen.id]
            self.deployments[known.id] = replace(known, resource_version=seen.resource_version, epoch=seen.epoch)
        self.observed |= {row.deployment_id: row for row in changes.observed}
        self.forced_deletions |= {row.id: row for row in changes.forced_deletions}
        _drop(self.forced_deletions, changes.forced_deletions_gone)
        self.resources |= {row.id: row for row in changes.plain_resources}
        for seen in changes.plain_resource_sightings:
            resource = self.resources[seen.id]
            self.resources[seen.id] = replace(resource, resource_version=seen.resource_version, epoch=seen.epoch)
        written = (
            *changes.deployments,
            *changes.sightings,
            *changes.plain_resources,
            *changes.plain_resource_sightings,
        )
        self.dormant -= {row.id for row in written}
        self.dormant |= {*changes.deployments_dormant, *changes.plain_resources_dormant}
        self.checks |= {row.resource_id: row for row in changes.checks}
        self.sync_runs |= {row.resource_id: row for row in changes.sync_runs}
        self._apply_audit(changes)
        self._apply_engine(changes)
        self.workspace |= {(row.workspace, row.namespace, row.kind, row.name): row for row in changes.workspace}
        gone = {tuple(key): uid for *key, uid in changes.workspace_gone}
        _drop(self.workspace, [key for key, row in self.workspace.items() if gone.get(key) == row.uid])
        self._apply_child_objects(changes)
        _drop(self.pending_claims, changes.pending_claims_gone)
        self.pending_claims |= {
            (row.workspace, row.namespace, row.name, row.uid): row for row in changes.pending_claims
        }
        _drop(self.resources, changes.plain_resources_gone)
        _drop(self.checks, changes.plain_resources_gone)
        _drop(self.sync_runs, changes.plain_resources_gone)
        _drop(self.deployments, changes.deployments_gone)
        _drop(self.observed, changes.deployments_gone)
        rows = (*self.resources.values(), *self.deployments.values(), *self.forced_deletions.values())
        left = {row.tenant_id for row in rows}
        _drop(self.tenants, [tenant for tenant in changes.tenants_gone if tenant not in left])
        current = [tenant.full_name for tenant in self.tenants.values() if not tenant.is_former]
        assert len(current) == len(set(current))
        assert all(known in self.deployments for known in self.observed)
        assert all(known in self.resources for known in (*self.checks, *self.sync_runs))
        assert all(each.tenant_id in self.tenants for each in (*self.resources.values(), *self.deployments.values()))
        assert not any(map(self._is_part_on_own_instance, self.deployments.values()))
        assert all(deletion.tenant_id in self.tenants for deletion in self.forced_deletions.values())

    def _is_part_on_own_instance(self, row: Deployment) -> bool:
        return row.engine_instance_id == self.tenants[row.tenant_id].engine_instance_id

    def _apply_audit(self, changes: Changes) -> None:
        """A record stays as it was first written, but for what has become of its change."""
        for change in changes.audited_changes:
            if (former := self.audit_records.pop(change.id, None)) is not None:
                self.audit_records[change.displaced_id] = replace(former, id=change.displaced_id)
        for row in changes.audit_records:
            known = self.audit_records.get(row.id, row)
            self.audit_records[row.id] = replace(known, state=row.state, message=row.message)
        for change in changes.audited_changes:
            if change.deletion_id in self.audit_records:
                self.audit_records[change.id] = replace(self.audit_records[change.id], actor=RESTORED_ACTOR)
        for moved in changes.audit_outcomes:
            operation = self.audit_records.get(moved.id)
            if operation is not None and operation.state in {"Waiting", "Failed"}:
                self.audit_records[moved.id] = replace(operation, state=moved.state, message=moved.message)

    def _apply_sweeps(self, changes: Changes) -> None:
        """A marker that is older than the refused one changes nothing."""
        for done in changes.sweeps_done:
            if (known := self.refused_sweeps.get(done.place)) is not None and known.epoch <= done.epoch:
                del self.refused_sweeps[done.place]
        for row in changes.refused_sweeps:
            place = (row.source, row.kind, row.partition)
            if (known := self.refused_sweeps.get(place)) is None or known.epoch <= row.epoch:
                self.refused_sweeps[place] = row
        _drop(self.sweep_parts, changes.sweep_parts_done)
        for part in changes.sweep_parts:
            self._parts_decided += 1
            self.sweep_parts[self._parts_decided] = part
        for completed in changes.lists_completed:
            newest = max(completed.epoch, self.complete_lists.get(completed.place, 0))
            self.complete_lists[completed.place] = newest

    def _apply_of_instances(self, changes: Changes) -> None:
        _drop(self.kept_orphans, changes.kept_orphans_gone)
        self.kept_orphans |= {row.engine_instance_id: row for row in changes.kept_orphans}
        self.engine_health |= {row.engine_instance_id: row for row in changes.engine_health}

    def _apply_replaced(self, changes: Changes) -> None:
        for tenant in changes.tenants_replaced:
            _drop(self.workspace, [key for key in self.workspace if key[:2] == tenant.full_name])
            for rows in (self.deployments, self.resources):
                _drop(rows, [row.id for row in rows.values() if row.tenant_id == tenant.id and row.id in self.dormant])
            self.dormant &= self.deployments.keys() | self.resources.keys()
            _drop(self.sync_runs, self.sync_runs.keys() - self.resources.keys())
            _drop(self.checks, self.checks.keys() - self.resources.keys())
            _drop(self.observed, self.observed.keys() - self.deployments.keys())

    def _apply_child_objects(self, changes: Changes) -> None:
        for *key, owner in changes.child_objects_gone:
            assert self.child_objects.pop(tuple(key)).owner_uid == owner
        self.child_objects |= {(row.workspace, row.namespace, *row.key): row for row in changes.child_objects}

    def _apply_engine(self, changes: Changes) -> None:
        """A row of another lane is another tenant's, whatever its name."""
        for row in changes.engine:
            if self._lane(row.engine_instance_id, row.kind, row.namespace, row.name) in {None, row.lane}:
                self.engine[row.engine_instance_id, row.kind, row.namespace, row.name] = row
        for row in changes.engine_departing:
            assert (row.engine_instance_id, row.kind, row.namespace, row.name) in self.engine
            self.engine[row.engine_instance_id, row.kind, row.namespace, row.name] = row
        for gone in changes.engine_absent:
            key = (gone.engine_instance_id, gone.kind, gone.namespace, gone.name)
            if self._lane(*key) == gone.lane:
                absent = replace(self.engine[key], desired="absent", trace_id=gone.trace_id, seen_at=gone.seen_at)
                self.engine[key] = absent
        for instance, kind, namespace, name, lane in changes.engine_gone:
            if self._lane(instance, kind, namespace, name) == lane:
                del self.engine[instance, kind, namespace, name]

    def _lane(self, instance: str, kind: str, namespace: str, name: str) -> str | None:
        held = self.engine.get((instance, kind, namespace, name))
        return held.lane if held is not None else None

    # What the clock asks for

    def take_due_sweeps(self, most: int = sys.maxsize) -> list[Changes]:
        """Remove what complete lists lacked, in its parts; returns what each has written."""
        written = []
        while len(written) < most and (due := self.due_sweep()) is not None:
            written.append(self.take_batch(Event(due, due.part.partition, due.part.trace_id)))
        return written

    def due_sweep(self) -> SweepDue | None:
        """The next part of what complete lists lacked."""
        turns = sorted((part.turn, number) for number, part in self.sweep_parts.items())
        return next((SweepDue(number, self.sweep_parts[number]) for _, number in turns), None)

    def take_due(self) -> int:
        """Look at custom resources whose time has come; returns how many there were."""
        rows = (*self.deployments.values(), *self.resources.values())
        due = [row for row in rows if row.due_at is not None and row.due_at <= NOW + self.later]
        names = [self.tenants[row.tenant_id].full_name for row in due]
        self.take(*(Event(Due(*name, row.id), 0, "") for name, row in zip(names, due, strict=True)))
        return len(due)

    def take_due_moves(self) -> bool:
        """Look at moves of which the next step may be taken; returns whether there was one."""
        due = [
            each
            for each in self.moves.values()
            if each.tenant_id in self.tenants and not each.is_over and each.step != "ordered" and self._is_due(each)
        ]
        self.take(*(Event(MoveDue(move), move.partition, "") for move in due))
        return bool(due)

    def _is_due(self, move: Move) -> bool:
        return (move.due_at is not None and move.due_at <= NOW + self.later) or (
            move.is_cancelled and move.is_cancellable
        )

    # What tests look at

    def application(self, uid: str = "uid-1") -> EngineRow | None:
        return next((row for row in self.engine.values() if row.name == f"gitopsdepl-{uid}"), None)

    def project(self) -> EngineRow | None:
        """The only tenant's AppProject."""
        (project,) = [row for row in self.engine.values() if row.kind == "AppProject"] or [None]
        return project

    def rows(self) -> dict[str, Any]:
        """Everything, to be compared."""
        ours = ("tenants", "deployments", "observed", "resources", "checks", "sync_runs", "audit_records")
        names = (*ours, "engine", "workspace", "child_objects", "pending_claims")
        return {name: dict(getattr(self, name)) for name in names}


def _drop(rows: dict[Any, Any], keys: Sequence[Any]) -> None:
    for key in keys:
        rows.pop(key, None)
