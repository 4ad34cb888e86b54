"""Turns a finished plan into rows: only those that differ from before, and the state that follows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.gitops_deployment.status import DELETION_NOTICE
from services.kinds.shared.conditions import HELD_BACK_NOTICE_MS, THROTTLING_SHOWN
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.audit import (
    audit_of_move,
    audit_of_parts,
    audit_of_placement,
    audit_records,
    audited_changes,
)
from services.planner.domain.changes import Changes, Sighting, TenantChanges, TenantPart
from services.planner.domain.dormancy import GONE, dormant_deployments, dormant_plain_resources, with_dormant
from services.planner.domain.indexed_rows import Subset, differing, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.handover.moved_deployments import stays_on_engine
from services.planner.engines.interface import Placement, engine_key, engine_row
from services.planner.rows.compiled import (
    ChildRowKey,
    EngineAbsence,
    EngineKey,
    EngineObjectKey,
    Owner,
    PendingClaimKey,
    StatusKey,
)

KeyT = TypeVar("KeyT")
RowT = TypeVar("RowT")
IncarnationT = TypeVar("IncarnationT", Deployment, PlainResource)


LEFT: Subset[Deployment] = Subset(lambda each: not each.present and each.spec is None)
"""Deployments without a CR and without an object on an engine."""


def changes_of(planned: PlannedTenant, known: TenantState, context: Context) -> TenantChanges:
    """All rows that differ between ``known``, the tenant before the batch, and the tenant as planned."""
    stored, move = known.tenant, planned.state.move
    planned = planned.with_state(_with_due_times(planned))
    finished = _finished(planned.state)
    opened, moved = audit_records(planned, finished, context)
    state, before = planned.state.without_incarnations(finished), context.before
    placed = audit_of_placement(state.tenant, stored, planned.cause) if planned.cause is not None else ()
    parts = audit_of_parts(planned, context, planned.cause) if planned.cause is not None else ()
    deployments_dormant = dormant_deployments(state, context.policy.limits)
    plain_resources_dormant = dormant_plain_resources(state, context.policy.kinds)
    if deployments_dormant or plain_resources_dormant:
        state = state._replace(tenant=replace(state.tenant, dormant=True))
    is_empty = not any(
        (
            state.deployments,
            state.plain_resources,
            state.objects_by_instance,
            state.forced_deletions,
            state.child_objects,
        )
    )
    dormant = deployments_dormant | plain_resources_dormant
    deployments, sightings = _split(state.deployments, before.deployments, dormant)
    plain_resources, plain_resource_sightings = _split(state.plain_resources, before.plain_resources, dormant)
    written = Changes(
        tenants=(state.tenant,) if state.tenant != stored and not is_empty else (),
        tenants_replaced=(state.tenant,) if state.tenant.is_former and not stored.is_former else (),
        tenants_gone=(stored.id,) if is_empty and stored.engine_instance_id else (),
        deployments=deployments,
        deployments_gone=_gone(state.deployments, before.deployments),
        parts=tuple(TenantPart(stored.id, each) for each in state.parts if each not in before.parts),
        sightings=sightings,
        observed=_changed(state.observed, before.observed),
        observed_gone=tuple(each for each in _gone(state.observed, before.observed) if each in state.deployments),
        forced_deletions=_changed(state.forced_deletions, before.forced_deletions),
        forced_deletions_gone=_gone(state.forced_deletions, before.forced_deletions),
        plain_resources=plain_resources,
        plain_resources_gone=_gone(state.plain_resources, before.plain_resources),
        plain_resource_sightings=plain_resource_sightings,
        checks=_changed(state.checks, before.checks),
        sync_runs=_changed(state.sync_runs, before.sync_runs),
        audited_changes=tuple(audited_changes(planned, context)),
        audit_records=(*opened, *(() if is_empty else placed), *parts, *audit_of_move(move, known.move)),
        audit_outcomes=moved,
        oversized=tuple(_oversized(planned, context)),
        deployments_dormant=tuple(sorted(deployments_dormant)),
        plain_resources_dormant=tuple(sorted(plain_resources_dormant)),
        workspace=planned.shown.rows,
        workspace_gone=planned.shown.gone,
        child_objects=_changed(state.child_objects, before.child_objects),
        child_objects_gone=_child_objects_gone(state, before),
        pending_claims=_changed(state.pending_claims, before.pending_claims),
        pending_claims_gone=_pending_claims_gone(state, before),
        moves=(move,) if move is not None and move != known.move else (),
        **_engine(planned, context),
    )
    if move is not None and move.is_over:
        state = state._replace(move=None)
    kept = None if is_empty else _awake(state, dormant)
    if kept is not None and planned.cause is not None:
        kept = kept._replace(basis=context.basis)
    return TenantChanges(state.tenant, written, kept)


def _with_due_times(planned: PlannedTenant) -> TenantState:
    """Touched rows with the time at which they are due: for a long deletion, for throttling, or by their rules."""
    state = planned.state
    for subject, cause in planned.touched.items():
        deployment, resource = state.deployments.get(subject), state.plain_resources.get(subject)
        if deployment is not None:
            deleting = deployment.present and deployment.deleting and deployment.spec is not None
            due = _next(deployment, cause.at, DELETION_NOTICE if deleting else None, None)
            if due != deployment.due_at:
                state = state.with_deployments(replace(deployment, due_at=due))
        elif resource is not None:
            due = _next(resource, cause.at, None, planned.due.get(subject))
            if due != resource.due_at:
                state = state.with_plain_resources(replace(resource, due_at=due))
    return state


def _next(
    row: Deployment | PlainResource, at: datetime, notice: timedelta | None, of_rules: datetime | None
) -> datetime | None:
    """The next time after ``at`` when a row is due. A time that its rules want counts also if it is past.

    Rules may use the planner's clock, while ``at`` is by the clock of an edge.
    """
    throttled = THROTTLING_SHOWN if row.present and row.held_back_ms >= HELD_BACK_NOTICE_MS else None
    shown = (row.seen_at + each for each in (notice, throttled) if each is not None)
    times = [*(time for time in shown if time > at), *([of_rules] if of_rules is not None else [])]
    return min(times, default=None)


def _finished(state: TenantState) -> frozenset[UUID]:
    """Deployments and resources of which nothing is left, neither the CR nor anything on an engine.

    A run is remembered for a while after its end, because a late command must not run it again. Late commands of a
    former tenant have no effect.
    """
    deployments = index_of(state.deployments, LEFT)
    gone, owned = index_of(state.plain_resources, GONE), state.objects_by_owner()
    return frozenset([*deployments, *(key for key, each in gone.items() if _is_over(state, each, owned))])


def _is_over(state: TenantState, known: PlainResource, owned: Collection[UUID]) -> bool:
    run = state.sync_runs.get(known.id)
    if known.uid in state.child_objects_by_owner():
        return False
    return known.id not in owned and (run is None or run.sequence == 0 or state.tenant.is_former)


def _awake(state: TenantState, dormant: Collection[UUID]) -> TenantState:
    """The state without dormant rows, and without the statuses of names that only these have."""
    if not dormant:
        return state
    awake = state.without_incarnations(dormant)
    rows = [row for row in map(state.find, dormant) if row is not None]
    shown = {key for row in rows if (key := _status_key(row)) in state.statuses}
    others = {name for name, ids in awake.ids_named(shown).items() if ids} if shown else set()
    awake = awake.without_statuses(*(shown - others))
    return with_dormant(awake, (row for row in rows if isinstance(row, PlainResource)))


def _status_key(row: Deployment | PlainResource) -> StatusKey:
    return (GITOPS_DEPLOYMENT.kind if isinstance(row, Deployment) else row.kind, row.name)


def _changed(now: Mapping[KeyT, RowT], before: Mapping[KeyT, RowT]) -> tuple[RowT, ...]:
    """Rows that are new, or have other content."""
    changed = [key for key in differing(now, before) if key in now]
    return tuple(now[key] for key in changed if now[key] != before.get(key))


def _gone(now: Mapping[KeyT, RowT], before: Mapping[KeyT, RowT]) -> tuple[KeyT, ...]:
    """Keys of rows that are removed."""
    return tuple(key for key in differing(now, before) if key not in now)


def _child_objects_gone(now: TenantState, before: TenantState) -> tuple[ChildRowKey, ...]:
    gone = (before.child_objects[key] for key in _gone(now.child_objects, before.child_objects))
    return tuple(ChildRowKey(each.workspace, each.namespace, each.kind, each.name, each.owner_uid) for each in gone)


def _pending_claims_gone(now: TenantState, before: TenantState) -> tuple[PendingClaimKey, ...]:
    gone = (before.pending_claims[uid] for uid in _gone(now.pending_claims, before.pending_claims))
    return tuple(PendingClaimKey(each.workspace, each.namespace, each.name, each.uid) for each in gone)


def _split(
    now: Mapping[UUID, IncarnationT], before: Mapping[UUID, IncarnationT], dormant: Collection[UUID]
) -> tuple[tuple[IncarnationT, ...], tuple[Sighting, ...]]:
    """Rows to write in full, and rows of which only the sighting is new. After a resync most are of the second kind."""
    full, sightings = [], []
    for row in _changed(now, before):
        known = before.get(row.id)
        if known is not None and row == replace(known, epoch=row.epoch, resource_version=row.resource_version):
            sightings.append(Sighting(row.id, row.resource_version, row.epoch, row.id in dormant))
        else:
            full.append(row)
    return tuple(full), tuple(sightings)


def _engine(planned: PlannedTenant, context: Context) -> dict[str, tuple[Any, ...]]:
    """Rows to write, to mark absent, to write as absent, and to delete, by the names of these changes."""
    rows: dict[str, list[Any]] = {}
    rows_of_all = (*_of_deployments(planned, context), *_of_deployments_left(context), *_of_objects(planned, context))
    for name, row in rows_of_all:
        rows.setdefault(name, []).append(row)
    return {name: tuple(found) for name, found in rows.items()}


def _oversized(planned: PlannedTenant, context: Context) -> Iterator[EngineKey]:
    """Keys of objects that exceed 1 MiB. Deployments have none, because their specs are short."""
    for (instance, key), manifest in planned.manifests.items():
        if manifest.is_oversized and context.engine.deployment_uid(key) is None:
            yield engine_key(context.engine, context.placement_on(instance), key)


def _of_deployments(planned: PlannedTenant, context: Context) -> Iterator[tuple[str, object]]:
    engine, known = context.engine, context.before
    for now, cause in _deployments_changed(planned, context):
        key, before = engine.deployment_key(now.uid), known.deployments.get(now.id)
        owner, is_handed_over = Owner(GITOPS_DEPLOYMENT.kind, now.id), now.id in context.handed_over
        was_on_engine, is_on_engine = (
            stays_on_engine(before, known, known.move),
            stays_on_engine(now, known, context.move),
        )
        placement = context.placement_of(now)
        if now.spec is None:
            if before is not None and before.spec is not None:
                yield "engine_gone", engine_key(engine, context.placement_of(before), key)
        elif not is_on_engine:
            if was_on_engine:
                yield "engine_absent", _absence(key, cause, placement, context)
        elif before is None or is_handed_over or (before.digest, was_on_engine) != (now.digest, True):
            yield (
                "engine",
                engine_row(engine, placement, planned.manifests[placement.instance.id, key], owner, "present", cause),
            )


def _of_deployments_left(context: Context) -> Iterator[tuple[str, object]]:
    """Rows of Applications that are no longer on the instance that the tenant has left."""
    if context.left is not None and not (context.move is not None and context.move.path == "fenced"):
        for known in map(context.before.deployments.__getitem__, sorted(context.handed_over)):
            if known.spec is not None:
                yield "engine_gone", engine_key(context.engine, context.left, context.engine.deployment_key(known.uid))


def _of_objects(planned: PlannedTenant, context: Context) -> Iterator[tuple[str, object]]:
    """Changes of objects, on every instance that has some, or had."""
    if planned.cause is not None:
        for instance in sorted({*planned.state.objects_by_instance, *context.before.objects_by_instance}):
            yield from _of_instance(instance, planned, planned.cause, context)


def _of_instance(instance: str, planned: PlannedTenant, cause: Cause, context: Context) -> Iterator[tuple[str, object]]:
    before, objects = context.before.objects_on(instance), planned.state.objects_on(instance)
    engine, placement = context.engine, context.placement_on(instance)
    for key in differing(objects, before):
        then, now = before.get(key), objects.get(key)
        if now is None:
            yield "engine_gone", engine_key(engine, placement, key)
        elif now == then:
            continue
        elif now.is_desired:
            yield "engine", engine_row(engine, placement, planned.manifests[instance, key], now.owner, "present", cause)
        elif (manifest := planned.manifests.get((instance, key))) is not None:
            yield "engine_departing", engine_row(engine, placement, manifest, now.owner, "absent", cause)
        else:
            yield "engine_absent", _absence(key, cause, placement, context)


def _absence(key: EngineObjectKey, cause: Cause, placement: Placement, context: Context) -> EngineAbsence:
    return EngineAbsence(*engine_key(context.engine, placement, key), cause.trace_id, cause.at)


def _deployments_changed(planned: PlannedTenant, context: Context) -> Iterator[tuple[Deployment, Cause]]:
    """Deployments with the cause that latency is measured from: the change of the CR, or the event that changed it."""
    deployments, known = planned.state.deployments, context.before.deployments
    for subject in differing(deployments, known):
        now, before = deployments.get(subject), known.get(subject)
        if now is not None:
            asked = before is None or before.seen_at != now.seen_at
            cause = Cause(now.seen_at, now.trace_id) if asked else planned.touched.get(subject) or planned.cause
            if cause is not None:
                yield now, cause
