"""Applies agents' reports to a tenant.

A plan does this twice: first for reports that change rows which other steps read; at the end for reports about
manifests (applied, refused), which count only if the manifest is still the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from services.common.messages import (
    Applied,
    Checked,
    Failed,
    Observation,
    Removed,
    StatusReported,
    SyncMoved,
)
from services.kinds.gitops_deployment import rules as deployment_rules
from services.kinds.gitops_deployment.catalogue import REPOSITORY_NEEDS_LOGIN
from services.kinds.gitops_deployment.left_behind import environment_of
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.catalogue import UNKNOWN_ERROR
from services.kinds.shared.kind import CheckReasons
from services.kinds.shared.resource import Cause, Check, PlainResource
from services.kinds.shared.text import MAX_CHECK_MESSAGE, MAX_CHECK_REASON, readable
from services.kinds.sync_run import rules as sync_run
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rows import SyncRun
from services.planner.domain import audit, ids
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.forced_deletions import remember_deletion, resources_seen
from services.planner.domain.steps.handover.move_reports import observe_release
from services.planner.domain.steps.handover.moved_deployments import has_compared, stays_on_engine
from services.planner.rows.audit import AuditOutcome, AuditState
from services.planner.rows.compiled import TENANT, EngineObject

NEVER_CHECKED = CheckReasons("", "")


def observe_event(planned: PlannedTenant, observation: Observation, cause: Cause, context: Context) -> PlannedTenant:
    """The tenant after an agent's report. Reports about other instances' objects change nothing."""
    if isinstance(observation.event, SyncMoved):
        return _sync_moved(planned, observation.workspace, observation.event, cause, context)
    key = (observation.kind, observation.name)
    uid = context.engine.deployment_uid(key)
    if uid is not None:
        return _deployment_removed(planned, observation, uid, cause, context)
    stored = planned.state.objects_on(observation.engine_instance_id).get(key)
    return planned if stored is None else _object_reported(planned, stored, observation, cause, context)


def observe_manifests(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with agents' reports about manifests that it still wants at the end of the batch."""
    for event in context.events:
        observation = event.message
        if not isinstance(observation, Observation):
            continue
        if not isinstance(observation.event, StatusReported | Applied | Failed):
            continue
        key, cause = (observation.kind, observation.name), event.cause(context.now)
        uid = context.engine.deployment_uid(key)
        if uid is not None and concerns(observation, planned.state, context):
            deployment = planned.state.deployments.get(ids.resource_id(observation.workspace, uid))
            if deployment is not None and deployment.spec is not None:
                planned = _observed(planned, deployment, observation.event, cause, context)
        elif (stored := context.before.objects_on(observation.engine_instance_id).get(key)) is not None:
            planned = _project_refused(planned, stored, observation, cause, context)
    return planned


def concerns(observation: Observation, state: TenantState, context: Context) -> bool:
    """Whether a report is about an object on the tenant's own instance, or about a deployment where that is.

    The end of a sync run counts on any instance: a rebuild replays runs of before a move while the tenant is on the
    target, and they must not run again.
    """
    instance, own = observation.engine_instance_id, state.tenant.engine_instance_id
    if isinstance(observation.event, SyncMoved):
        return observation.event.phase in sync_run.FINAL or instance == own or instance in state.parts
    key = (observation.kind, observation.name)
    uid = context.engine.deployment_uid(key)
    if uid is not None:
        known = state.deployments.get(ids.resource_id(observation.workspace, uid))
        return instance == (state.instance_of(known) if known is not None else own)
    stored = state.objects_on(instance).get(key)
    return instance == own or (stored is not None and stored.owner.kind == SYNC_RUN.kind)


def _deployment_removed(
    planned: PlannedTenant, observation: Observation, uid: str, cause: Cause, context: Context
) -> PlannedTenant:
    """Its Application was removed: clear its observed state."""
    state = planned.state
    known = state.deployments.get(ids.resource_id(observation.workspace, uid))
    if known is None or known.spec is None or not isinstance(observation.event, Removed):
        return planned
    if context.move is not None and context.move.step == "releasing" and context.is_moved(known):
        return observe_release(planned, (observation.kind, observation.name))
    if stays_on_engine(known, state, context.move):
        return planned
    empty = deployment_rules.empty_deployment(known)
    message = ""
    if observation.event.forced:
        seen = resources_seen(state, known, context)
        message = audit.forced_deletion(observation.name, environment_of(known), seen)
        planned = remember_deletion(planned, known, seen, cause)
    planned = planned.with_state(planned.state.without_observed(known.id)).with_row(empty, cause)
    return planned.with_outcome(AuditOutcome(audit.change_id(known), "Completed", message, cause.at))


def _object_reported(
    planned: PlannedTenant, stored: EngineObject, observation: Observation, cause: Cause, context: Context
) -> PlannedTenant:
    """The tenant after a report about an object. What it means depends on the owner."""
    known = planned.state.plain_resources.get(stored.owner.id)
    if isinstance(observation.event, Removed):
        return planned if stored.is_desired else _object_removed(planned, observation, known, cause)
    if known is None:
        return planned
    if known.id in planned.state.sync_runs:
        return _sync_refused(planned, observation, known, stored, cause, context)
    return _check_reported(planned, known, observation, cause, context)


def _object_removed(
    planned: PlannedTenant, observation: Observation, owner: PlainResource | None, cause: Cause
) -> PlannedTenant:
    """The object is gone from the engine."""
    gone = (observation.kind, observation.name)
    planned = planned.with_state(planned.state.without_objects(gone))._replace(cause=cause)
    if owner is None:
        return planned
    forced = isinstance(observation.event, Removed) and observation.event.forced
    message = audit.forced_deletion(observation.name) if forced else ""
    outcome = AuditOutcome(audit.change_id(owner), "Completed", message, cause.at)
    return planned.touching(owner.id, cause).with_outcome(outcome)


def _check_reported(
    planned: PlannedTenant, known: PlainResource, observation: Observation, cause: Cause, context: Context
) -> PlannedTenant:
    match observation.event:
        case Checked() as checked if _is_news(planned, known, observation, checked.digest):
            return _checked(planned, known, checked, cause, context)
        case Failed(digest=digest) as failed if _is_news(planned, known, observation, digest):
            # The engine's own words are for operators, in the log of its agent.
            unknown = Checked(digest, _reasons(known, context).not_applied, UNKNOWN_ERROR.message)
            message = failed.message[:MAX_CHECK_MESSAGE]
            refused = AuditOutcome(audit.change_id(known), "Failed", message, cause.at)
            return _checked(planned, known, unknown, cause, context).with_outcome(refused)
        case _:
            return planned


def _is_news(planned: PlannedTenant, known: PlainResource, observation: Observation, digest: str) -> bool:
    """Whether a result counts: one for an older recipe does not, once there is one for the current recipe."""
    checked, check = planned.state.checked_object(known.id), planned.state.checks.get(known.id)
    if checked is None or checked[0] != (observation.kind, observation.name):
        return False
    return check is None or check.digest != checked[1].digest or digest == checked[1].digest


def _checked(
    planned: PlannedTenant, known: PlainResource, checked: Checked, cause: Cause, context: Context
) -> PlannedTenant:
    before = planned.state.checks.get(known.id)
    reason = readable(checked.reason)[:MAX_CHECK_REASON]
    message = readable(checked.message)[:MAX_CHECK_MESSAGE]
    worked = _worked(planned, known, checked, before, context)
    now = Check(known.id, checked.digest, reason, message, worked)
    if now == before:
        return planned
    planned = planned.with_state(planned.state.with_checks(now)).touching(known.id, cause)._replace(cause=cause)
    state: AuditState = "Completed" if reason == _reasons(known, context).succeeded else "Failed"
    return planned.with_outcome(AuditOutcome(audit.change_id(known), state, message, cause.at))


def _worked(
    planned: PlannedTenant, known: PlainResource, checked: Checked, before: Check | None, context: Context
) -> str:
    """The spec with which credentials last worked: that of the current recipe, if the result is for it."""
    stored = planned.state.checked_object(known.id)
    if (
        checked.reason == _reasons(known, context).succeeded
        and stored is not None
        and stored[1].digest == checked.digest
    ):
        return known.accepted
    return before.working_spec if before is not None else ""


def _reasons(known: PlainResource, context: Context) -> CheckReasons:
    return context.policy.kinds[known.kind].check_reasons or NEVER_CHECKED


def _sync_refused(
    planned: PlannedTenant,
    observation: Observation,
    known: PlainResource,
    stored: EngineObject,
    cause: Cause,
    context: Context,
) -> PlannedTenant:
    """The engine will never start the current sync request: its run has ended, so that the next may begin."""
    match observation.event:
        case Failed(digest=digest, permanent=True) as failed if stored.digest == digest:
            message = failed.message if failed.for_user else UNKNOWN_ERROR.message
            ended = SyncMoved(known.uid, "Error", message, "", "", "")
            return _sync_moved(planned, observation.workspace, ended, cause, context)
    return planned


def _sync_moved(
    planned: PlannedTenant, workspace: str, event: SyncMoved, cause: Cause, context: Context
) -> PlannedTenant:
    known = planned.state.sync_runs.get(ids.resource_id(workspace, event.run))
    if known is None:
        return planned
    state, run = planned.state, known
    if event.phase in sync_run.FINAL and not known.sequence:
        state, run = _started_before(state, known)
    now = sync_run.moved(run, _shown(planned, run, event, context))
    if now == known:
        return planned
    state = state.with_sync_runs(now)
    planned = planned.with_state(state).touching(now.resource_id, cause)._replace(cause=cause)
    if now.state != "Ended":
        return planned
    return planned.with_outcome(audit.outcome_of_run(state.plain_resources[now.resource_id], now, cause.at))


def _started_before(state: TenantState, known: SyncRun) -> tuple[TenantState, SyncRun]:
    """``known`` as it was in a database that was lost. There it was started; here it was not started yet.

    Here it waits for other runs, whose ends come together with its own, or a later command has refused it.
    """
    resource, deployment = state.plain_resources[known.resource_id], _deployment_of(state, known)
    run = sync_run.started(known, resource, deployment, deployment.sync_sequence if deployment is not None else 0)
    if deployment is not None:
        state = state.with_deployments(replace(deployment, sync_sequence=run.sequence))
    return state, run


def _deployment_of(state: TenantState, run: SyncRun) -> Deployment | None:
    """The deployment that the run syncs, if it exists."""
    if run.deployment_id is not None:
        return state.deployments.get(run.deployment_id)
    present = (each for each in state.deployments.values() if each.present and each.name == run.deployment_name)
    return next(present, None)


def _shown(planned: PlannedTenant, run: SyncRun, event: SyncMoved, context: Context) -> SyncMoved:
    """What the tenant sees of a report. If a repository needs a login, as little as if an agent had refused the run.

    Whether an agent or the engine refuses it depends on what other tenants have.
    """
    if event.phase in sync_run.FAILED and context.engine.needs_login(event.message):
        return SyncMoved(event.run, "Error", REPOSITORY_NEEDS_LOGIN.message, "", "", "")
    observed = planned.state.observed.get(run.deployment_id) if run.deployment_id is not None else None
    if event.phase in sync_run.FINAL or observed is None:
        return event
    is_closed = context.engine.read_status(observed.status, None, {}).needs_login
    return replace(event, message="", revision="", started_at="") if is_closed else event


def _observed(
    planned: PlannedTenant,
    deployment: Deployment,
    event: StatusReported | Applied | Failed,
    cause: Cause,
    context: Context,
) -> PlannedTenant:
    known = planned.state.observed.get(deployment.id) or deployment_rules.unobserved(deployment)
    outcome: AuditOutcome | None = None
    match event:
        case StatusReported() as status if not has_compared(known, status.status, context):
            return planned
        case StatusReported() as status:
            whole = context.engine.with_last_operation(status.status, known.status)
            now = deployment_rules.update_status(known, replace(status, status=whole), cause)
        case Applied() as applied:
            now = deployment_rules.mark_applied(known, applied, deployment)
            if deployment.is_active:
                outcome = AuditOutcome(audit.change_id(deployment), "Completed", "", cause.at)
        case Failed() as failed:
            now = deployment_rules.mark_failed(known, failed, deployment)
            state: AuditState = "Failed" if failed.permanent else "Waiting"
            outcome = AuditOutcome(audit.change_id(deployment), state, now.failure, cause.at)
    if now == known and context.is_known:
        return planned  # an agent that has started anew reports all again
    planned = planned.with_state(planned.state.with_observed(now)).touching(deployment.id, cause)
    return planned.with_outcome(outcome) if outcome is not None and now != known else planned


def _project_refused(
    planned: PlannedTenant, stored: EngineObject, observation: Observation, cause: Cause, context: Context
) -> PlannedTenant:
    """The engine refused a project: the deployments that wait for it show why."""
    failed = observation.event
    if (
        not isinstance(failed, Failed)
        or stored.owner.kind != TENANT
        or not stored.is_desired
        or stored.digest != failed.digest
    ):
        return planned
    for waiting in list(_waiting(planned, observation.engine_instance_id)):
        message = failed.message if failed.for_user else f"{observation.kind}: {failed.message}"
        own = replace(failed, digest=waiting.digest or "", message=message)
        planned = _observed(planned, waiting, own, cause, context)
    return planned


def _waiting(planned: PlannedTenant, instance: str) -> Iterator[Deployment]:
    """Wanted deployments on an instance that has not reported that it has them."""
    for known in planned.state.deployments.values():
        if planned.state.instance_of(known) == instance and known.is_active and known.spec is not None:
            observed = planned.state.observed.get(known.id)
            if observed is None or observed.applied_digest != known.digest:
                yield known
