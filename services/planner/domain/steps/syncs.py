"""Decides which sync runs of a tenant run now, and compiles their sync requests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.resource import PlainResource
from services.kinds.sync_run import rules as sync_run
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rows import SyncRun
from services.planner.domain import audit
from services.planner.domain.fleet.moves.moves import has_waited_for_runs
from services.planner.domain.indexed_rows import Groups, differing, index_of
from services.planner.domain.planned_tenant import Context, PlacedKey, PlannedTenant, StepResult, upsert_objects
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Manifest
from services.planner.rows.compiled import Owner

Runs = list[tuple[PlainResource, SyncRun]]


OPEN: Groups[SyncRun, str] = Groups(lambda run: run.deployment_name if run.state not in sync_run.OVER else None)
"""Runs that are not over, by the name of the deployment that they sync."""


def terminate_runs(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its sync runs terminated, if they run on and its move has waited long enough for their end."""
    if context.move is None or not has_waited_for_runs(context.move, context.now, context.policy.move_patience):
        return planned
    cause = context.last_event_cause
    moved = {each.id for each in planned.state.deployments.values() if context.is_moved(each)}
    for run in planned.state.sync_runs.values():
        if run.state == "Running" and run.deployment_id in moved:
            state = planned.state.with_sync_runs(sync_run.terminated_for_move(run))
            planned = planned.with_state(state).touching(run.resource_id, cause)._replace(cause=cause)
    return planned


def request_syncs(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the sync requests of the runs whose turn it is, and without those of other runs."""
    if planned.cause is None:
        return planned
    return planned.after(_request_in_turn(planned.state, planned.cause.at, context))


def _request_in_turn(state: TenantState, at: datetime, context: Context) -> StepResult:
    """``at``: the time at which runs that end now have ended."""
    before = context.before
    rows = (state.sync_runs, state.plain_resources, state.deployments)
    if all(
        now is then
        for now, then in zip(rows, (before.sync_runs, before.plain_resources, before.deployments), strict=True)
    ):
        return StepResult(state)
    concerned = _concerned(state, context)
    own, step, requested = state.tenant.engine_instance_id, StepResult(state), set[PlacedKey]()
    deployments = {each.name: each for each in state.deployments.values() if each.name in concerned and each.present}
    for name in sorted(concerned):
        runs, deployment = _open_runs(state, name), deployments.get(name)
        is_halted = deployment is not None and context.is_halted(deployment)
        arranged, sequence = sync_run.arrange(
            runs, deployment, deployment.sync_sequence if deployment else 0, is_halted=is_halted
        )
        if deployment is not None and sequence != deployment.sync_sequence:
            step = step.with_state(step.state.with_deployments(replace(deployment, sync_sequence=sequence)))
        for run in arranged:
            step = _with_run(step, run, at)
            synced = step.state.deployments.get(run.deployment_id) if run.deployment_id is not None else None
            if synced is not None and run.state in sync_run.ACTIVE:
                request, there = _request(step.state, run, synced, context), step.state.instance_of(synced)
                owner = Owner(SYNC_RUN.kind, run.resource_id)
                step = upsert_objects(step.on_instance(there), [request], owner).on_instance(own)
                requested.add((there, request.key))
    for instance, key in sorted(_ordered(context, concerned) - requested):
        step = step.with_state(step.state.on_instance(instance).without_objects(key).on_instance(own))
    return step


def _concerned(state: TenantState, context: Context) -> frozenset[str]:
    """Names of deployments, existing or not, whose runs may take other turns than before.

    All names if the tenant is planned from another basis.
    """
    before = context.before
    names = {*index_of(state.sync_runs, OPEN), *index_of(before.sync_runs, OPEN)}
    if not context.is_known:
        return frozenset(names)
    changed = {*differing(state.sync_runs, before.sync_runs), *differing(state.plain_resources, before.plain_resources)}
    runs = (known.get(each) for each in changed for known in (state.sync_runs, before.sync_runs))
    found = {run.deployment_name for run in runs if run is not None}
    for each in differing(state.deployments, before.deployments):
        found |= {row.name for known in (state, before) if (row := known.deployments.get(each)) is not None}
    return frozenset(found & names)


def _open_runs(state: TenantState, name: str) -> Runs:
    """Runs of this name that are not over."""
    runs = index_of(state.sync_runs, OPEN).get(name, {})
    return [(state.plain_resources[run.resource_id], run) for run in runs.values()]


def _ordered(context: Context, names: Collection[str]) -> set[PlacedKey]:
    """The sync requests that exist for deployments of these names, of any incarnation.

    All of them if the tenant is planned from another basis: then one without a run is withdrawn.
    """
    before, runs = context.before, context.before.sync_runs
    return {
        (instance, key)
        for instance in before.objects_by_instance
        for key, stored in before.on_instance(instance).objects_of_kind(SYNC_RUN.kind).items()
        if not context.is_known or runs[stored.owner.id].deployment_name in names
    }


def _with_run(step: StepResult, now: SyncRun, at: datetime) -> StepResult:
    if step.state.sync_runs.get(now.resource_id) == now:
        return step
    step = step._replace(state=step.state.with_sync_runs(now), touched=(*step.touched, now.resource_id))
    if now.state not in sync_run.OVER:
        return step
    outcome = audit.outcome_of_run(step.state.plain_resources[now.resource_id], now, at)
    return step._replace(outcomes=(*step.outcomes, outcome))


def _request(state: TenantState, run: SyncRun, deployment: Deployment, context: Context) -> Manifest:
    run_uid, revision = state.plain_resources[run.resource_id].uid, sync_run.revision_to_sync(run, deployment)
    return context.engine.sync_request(context.placement_of(deployment), deployment.uid, run_uid, run, revision)
