"""New Snapshots: each wants the PromotionRuns that bring it to the environments where automated promotions begin.

A Snapshot that nobody names is dormant, unless its row says that it waits for its runs (``snapshot/promotion.py``). The
runs are unowned objects, so they stay when the Snapshot is deleted. Each application keeps the newest of its runs that
are over; older ones are deleted, so that they do not use up the quota.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from uuid import UUID

from services.common.messages import UnownedKind
from services.kinds.application.kind import APPLICATION
from services.kinds.environment.expiry import remaining_of
from services.kinds.environment.known import KnownEnvironment, known_environment
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.promotion_run.model import PROMOTION_RUN, PromotionRunSpec
from services.kinds.promotion_run.rows import AUTOMATED_LABEL, TRUE, is_open, promotion_of
from services.kinds.shared.projection import labels_of
from services.kinds.shared.resource import PlainResource, within_quota
from services.kinds.shared.spec_text import readable_spec
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.snapshot.model import SNAPSHOT, KnownSnapshot
from services.kinds.snapshot.promotion import (
    NewSnapshot,
    awaits_runs,
    initial_environments,
    run_name,
    started_of,
    still_new,
    with_started,
)
from services.planner.domain.appstudio.outcomes import differs_by_kind, is_touched
from services.planner.domain.indexed_rows import Subset, differing, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, reconcile_unowned_objects

LOOKED_AT = (SNAPSHOT.kind, APPLICATION.kind, ENVIRONMENT.kind, PROMOTION_RUN.kind)
OWNERS = (SNAPSHOT.kind, APPLICATION.kind)
WAITING: Subset[PlainResource] = Subset(awaits_runs)
RUNS_KEPT = 10
"""Runs that are over and kept, of each application."""


def plan_new_snapshots(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the runs that its new Snapshots want, and without old runs."""
    cause, is_former = planned.last_cause, planned.state.tenant.is_former
    if cause is None or is_former or not _is_concerned(planned, context):
        return planned
    rows = _waiting(planned.state, context)
    runs = _automated_runs(planned.state)
    snapshots = map(_snapshot, rows.values()) if context.policy.promotes_snapshots else ()
    new = still_new(snapshots, _promoted(planned.state, runs) if rows else {}, context.now)
    roots = initial_environments(_environments(planned.state))
    requests = []
    for row in rows.values():
        snapshot = new.get(row.id)
        started = _started(snapshot, roots, planned.state) if snapshot is not None else frozenset()
        is_done = snapshot is None or (bool(roots) and started.issuperset(roots))
        kept = with_started(row, None if is_done else started)
        planned = planned if kept == row else planned.with_state(planned.state.with_plain_resources(kept))
        if snapshot is not None and not is_done:
            planned = planned if row.id in planned.touched else planned.touching(row.id, cause)
            planned = planned.due_by(row.id, snapshot.old_at)
            requests += [UnownedRequest(kept, run) for run in _wanted(snapshot, roots, started, runs, planned.state)]
    requests += _removals(planned.state, runs)
    return reconcile_unowned_objects(planned, OWNERS, requests, cause, context)


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    return differs_by_kind(planned.state, context, LOOKED_AT) or is_touched(planned, OWNERS)


def _waiting(state: TenantState, context: Context) -> Mapping[UUID, PlainResource]:
    """Snapshots that wait, those that are new, and those that had no room before."""
    before = context.before.plain_resources
    keys = [each for each in differing(state.plain_resources, before) if each in state.plain_resources]
    unseen = (state.plain_resources[each] for each in keys if each not in before or before[each].over_quota)
    news = {row.id: row for row in unseen if row.kind == SNAPSHOT.kind and row.is_active and not row.over_quota}
    waiting: Mapping[UUID, PlainResource] = index_of(state.plain_resources, WAITING)
    return {**waiting, **news}


def _snapshot(row: PlainResource) -> NewSnapshot:
    """The Snapshot of a row. One that cannot be read is of no application, so it gets no runs."""
    spec = readable_spec(KnownSnapshot, row) if row.is_active else None
    return NewSnapshot(row.id, row.name, spec.application if spec else "", row.created_at, started_of(row))


def _environments(state: TenantState) -> dict[str, KnownEnvironment]:
    rows = [each for each in state.plain_resources_of_kind(ENVIRONMENT.kind).values() if each.is_active]
    known = {row.name: known_environment(row) for row in rows if remaining_of(row) is None}
    return {name: each for name, each in known.items() if each is not None}


def _automated_runs(state: TenantState) -> dict[str, tuple[PlainResource, PromotionRunSpec]]:
    """By name, the runs that this step made, also those beyond the quota: no other run follows these."""
    rows = [each for each in state.plain_resources_of_kind(PROMOTION_RUN.kind).values() if each.present]
    made = (row for row in rows if labels_of(row.metadata).get(AUTOMATED_LABEL) == TRUE)
    specs = ((row, readable_spec(PromotionRunSpec, within_quota(row))) for row in made)
    return {row.name: (row, spec) for row, spec in specs if spec is not None}


def _promoted(state: TenantState, runs: Mapping[str, tuple[PlainResource, PromotionRunSpec]]) -> dict[str, int]:
    """For each application, when the newest of its Snapshots with one of ``runs`` was made. All of these are loaded."""
    made_at = {row.name: row.created_at for row in state.plain_resources_of_kind(SNAPSHOT.kind).values() if row.present}
    newest: dict[str, int] = {}
    for _, spec in runs.values():
        newest[spec.application] = max(newest.get(spec.application, 0), made_at.get(spec.snapshot, 0))
    return newest


def _started(snapshot: NewSnapshot, roots: Collection[str], state: TenantState) -> frozenset[str]:
    """Environments whose runs were started, also if the run was removed since."""
    runs = {each.name for each in state.plain_resources_of_kind(PROMOTION_RUN.kind).values() if each.present}
    return snapshot.started | {each for each in roots if run_name(snapshot.name, each) in runs}


def _wanted(
    snapshot: NewSnapshot,
    roots: Collection[str],
    started: Collection[str],
    runs: Mapping[str, tuple[PlainResource, PromotionRunSpec]],
    state: TenantState,
) -> Iterator[UnownedObject]:
    """Runs that may begin: an earlier run of the same application and environment has to be over first."""
    applications = state.plain_resources_of_kind(APPLICATION.kind).values()
    if not any(each.is_active and each.name == snapshot.application for each in applications):
        return
    open_runs = (spec for row, spec in runs.values() if is_open(row))
    busy = {spec.initial_environment for spec in open_runs if spec.application == snapshot.application}
    for environment in roots:
        if environment not in started and environment not in busy:
            spec = snapshot.run_for(environment).model_dump(by_alias=True, exclude_none=True)
            yield UnownedObject(
                UnownedKind.PROMOTION_RUN,
                run_name(snapshot.name, environment),
                spec=spec,
                labels={AUTOMATED_LABEL: TRUE},
            )


def _removals(
    state: TenantState, runs: Mapping[str, tuple[PlainResource, PromotionRunSpec]]
) -> Iterator[UnownedRequest]:
    """Requests to delete runs that are over and that the application does not keep, the oldest first."""
    applications = [each for each in state.plain_resources_of_kind(APPLICATION.kind).values() if each.is_active]
    over = sorted(
        (row for row, _ in runs.values() if promotion_of(row).state == "Complete"),
        key=lambda row: (-row.created_at, row.name),
    )
    for application in applications:
        own = [row for row in over if runs[row.name][1].application == application.name]
        for row in own[RUNS_KEPT:]:
            removed = UnownedObject(UnownedKind.PROMOTION_RUN, row.name, row.uid, is_deleted=True)
            yield UnownedRequest(application, removed)
