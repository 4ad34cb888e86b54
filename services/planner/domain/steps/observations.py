"""Applies agents' reports to a tenant.

A plan does this twice: first for reports that change rows which other steps read; at the end for reports about
manifests (applied, refused), which count only if the manifest is still the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

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
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.catalogue import UNKNOWN_ERROR
from services.kinds.shared.kind import CheckReasons
from services.kinds.shared.rows import Cause, Check, Resource
from services.kinds.shared.text import MAX_CHECK_MESSAGE, MAX_CHECK_REASON, readable
from services.kinds.sync_run import rules as sync_run
from services.planner.domain import audit, ids
from services.planner.domain.events import Event
from services.planner.domain.planned import Context, Planned, made_for
from services.planner.engines.interface import Subject
from services.planner.rows import OperationMoved, OperationState, Role

NEVER_CHECKED = CheckReasons("", "")


def take_observation(planned: Planned, observation: Observation, cause: Cause, context: Context) -> Planned:
    """The tenant after an agent's report. Those of another instance's objects change nothing."""
    if isinstance(observation.event, SyncMoved):
        return _sync_moved(planned, observation.workspace, observation.event, cause)
    subject = context.engine.subject(observation.kind, observation.name)
    match subject:
        case Subject(role=Role.DEPLOYMENT, uid=uid) if isinstance(observation.event, Removed):
            return _deployment_removed(planned, observation, uid, cause)
        case Subject(role=Role.PROJECT) if isinstance(observation.event, Removed):
            return _without_object(planned, observation)._replace(cause=cause)
        case Subject(role=Role.SYNC, uid=uid):
            return _sync_refused(planned, observation, uid, cause)
        case Subject(role=Role.ENVIRONMENT | Role.CREDENTIAL, owner=owner):
            known = planned.state.resources.get(owner) if owner is not None else None
            return planned if known is None else _credentials_reported(planned, known, observation, cause, context)
        case _:
            return planned


def take_outcomes(planned: Planned, events: Sequence[Event], context: Context, now: datetime) -> Planned:
    """What agents say of manifests counts if those are wanted at the end of the batch."""
    for event in events:
        observation = event.message
        if not isinstance(observation, Observation) or not concerns(observation, context):
            continue
        if not isinstance(observation.event, StatusReported | Applied | Failed):
            continue
        subject, cause = context.engine.subject(observation.kind, observation.name), event.cause(now)
        match subject:
            case Subject(role=Role.DEPLOYMENT, uid=uid):
                deployment = planned.state.deployments.get(ids.resource_id(observation.workspace, uid))
                if deployment is not None and deployment.spec is not None:
                    planned = _observed(planned, deployment, observation.event, cause, context)
            case Subject(role=Role.PROJECT) if isinstance(observation.event, Failed):
                planned = _project_refused(planned, observation, observation.event, cause, context)
    return planned


def concerns(observation: Observation, context: Context) -> bool:
    """Whether it is about an object of the tenant's own instance."""
    return observation.engine_instance_id == context.before.tenant.engine_instance_id


def _deployment_removed(planned: Planned, observation: Observation, uid: str, cause: Cause) -> Planned:
    """What it became is gone from the engine."""
    state = planned.state
    known = state.deployments.get(ids.resource_id(observation.workspace, uid))
    if known is None or known.spec is None or known.wanted or not isinstance(observation.event, Removed):
        return planned
    empty = deployment_rules.without_application(known)
    planned = planned.with_state(state.without_observed(known.id)).put(empty, cause)
    message = "the engine did not finish in time" if observation.event.forced else ""
    return planned.with_outcome(OperationMoved(audit.change_id(known), "Completed", message, cause.at))


def _without_object(planned: Planned, observation: Observation) -> Planned:
    """An object is gone from the engine; unless it is wanted again by now."""
    key = (observation.kind, observation.name)
    held = planned.state.objects.get(key)
    if held is None or held.wanted:
        return planned
    return planned.with_state(planned.state.without_objects(key))


def _credentials_reported(
    planned: Planned, known: Resource, observation: Observation, cause: Cause, context: Context
) -> Planned:
    match observation.event:
        case Removed():
            planned = _without_object(planned, observation).touching(known.id, cause)._replace(cause=cause)
            return planned.with_outcome(OperationMoved(audit.change_id(known), "Completed", "", cause.at))
        case Checked() as checked if _is_news(planned, known, observation, checked.digest, context):
            return _checked(planned, known, checked, cause, context)
        case Failed(digest=digest) as failed if _is_news(planned, known, observation, digest, context):
            # The engine's own words are for operators, in the log of its agent.
            unknown = Checked(digest, _reasons(known, context).not_applied, UNKNOWN_ERROR.message)
            message = failed.message[:MAX_CHECK_MESSAGE]
            refused = OperationMoved(audit.change_id(known), "Failed", message, cause.at)
            return _checked(planned, known, unknown, cause, context).with_outcome(refused)
        case _:
            return planned


def _is_news(planned: Planned, known: Resource, observation: Observation, digest: str, context: Context) -> bool:
    """A result for an older recipe says nothing any more once there is one for that which is out now."""
    if (observation.kind, observation.name) != made_for(known, context.engine):
        return False
    held, check = planned.state.objects.get(made_for(known, context.engine)), planned.state.checks.get(known.id)
    has_result = held is not None and check is not None and check.digest == held.digest
    return not has_result or (held is not None and held.digest == digest)


def _checked(planned: Planned, known: Resource, checked: Checked, cause: Cause, context: Context) -> Planned:
    before = planned.state.checks.get(known.id)
    reason = readable(checked.reason)[:MAX_CHECK_REASON]
    message = readable(checked.message)[:MAX_CHECK_MESSAGE]
    worked = _worked(planned, known, checked, before, context)
    now = Check(known.id, checked.digest, reason, message, worked)
    if now == before:
        return planned
    planned = planned.with_state(planned.state.with_checks(now)).touching(known.id, cause)._replace(cause=cause)
    state: OperationState = "Completed" if reason == _reasons(known, context).succeeded else "Failed"
    return planned.with_outcome(OperationMoved(audit.change_id(known), state, message, cause.at))


def _worked(planned: Planned, known: Resource, checked: Checked, before: Check | None, context: Context) -> str:
    """The spec with which credentials last worked: that of the recipe which is out now, if the result is of that."""
    held = planned.state.objects.get(made_for(known, context.engine))
    if checked.reason == _reasons(known, context).succeeded and held is not None and held.digest == checked.digest:
        return known.accepted
    return before.worked if before is not None else ""


def _reasons(known: Resource, context: Context) -> CheckReasons:
    return context.policy.kinds[known.kind].check_reasons or NEVER_CHECKED


def _sync_refused(planned: Planned, observation: Observation, uid: str, cause: Cause) -> Planned:
    """The engine will never take the order that is out now: its run has ended, so that the next may begin."""
    held = planned.state.objects.get((observation.kind, observation.name))
    match observation.event:
        case Failed(digest=digest, permanent=True) if held is not None and held.digest == digest:
            target = ids.resource_id(observation.workspace, uid)
            for run in list(planned.state.sync_runs.values()):
                if run.state in sync_run.ACTIVE and run.deployment_id == target:
                    run_uid = planned.state.resources[run.resource_id].uid
                    ended = SyncMoved(run_uid, "Error", UNKNOWN_ERROR.message, "", "", "")
                    planned = _sync_moved(planned, observation.workspace, ended, cause)
    return planned


def _sync_moved(planned: Planned, workspace: str, event: SyncMoved, cause: Cause) -> Planned:
    known = planned.state.sync_runs.get(ids.resource_id(workspace, event.run))
    if known is None:
        return planned
    now = sync_run.moved(known, event)
    if now == known:
        return planned
    state = planned.state.with_sync_runs(now)
    planned = planned.with_state(state).touching(now.resource_id, cause)._replace(cause=cause)
    if now.state != "Ended":
        return planned
    outcome: OperationState = "Completed" if now.phase == sync_run.SUCCEEDED else "Failed"
    change = audit.change_id(state.resources[now.resource_id])
    return planned.with_outcome(OperationMoved(change, outcome, now.message, cause.at))


def _observed(
    planned: Planned, deployment: Deployment, event: StatusReported | Applied | Failed, cause: Cause, context: Context
) -> Planned:
    known = planned.state.observed.get(deployment.id) or deployment_rules.unobserved(deployment)
    outcome: OperationMoved | None = None
    match event:
        case StatusReported() as status:
            now = deployment_rules.reported(known, status, cause)
        case Applied() as applied:
            now = deployment_rules.applied(known, applied, deployment)
            if deployment.wanted:
                outcome = OperationMoved(audit.change_id(deployment), "Completed", "", cause.at)
        case Failed() as failed:
            now = deployment_rules.failed(known, failed, deployment)
            state: OperationState = "Failed" if failed.permanent else "Waiting"
            outcome = OperationMoved(audit.change_id(deployment), state, now.failure, cause.at)
    if now == known and context.is_known:
        return planned  # an agent that has started anew reports all again
    planned = planned.with_state(planned.state.with_observed(now)).touching(deployment.id, cause)
    return planned.with_outcome(outcome) if outcome is not None and now != known else planned


def _project_refused(
    planned: Planned, observation: Observation, failed: Failed, cause: Cause, context: Context
) -> Planned:
    """What a project suffers is shown where users look: on the deployments that wait for it."""
    digest = context.before.wanted_digest((observation.kind, observation.name))
    if digest is None or digest != failed.digest:
        return planned
    for waiting in list(_waiting(planned)):
        own = replace(failed, digest=waiting.digest or "", message=f"{observation.kind}: {failed.message}")
        planned = _observed(planned, waiting, own, cause, context)
    return planned


def _waiting(planned: Planned) -> Iterator[Deployment]:
    """Wanted deployments whose manifest no engine was seen to hold."""
    for known in planned.state.deployments.values():
        if known.wanted and known.spec is not None:
            observed = planned.state.observed.get(known.id)
            if observed is None or observed.applied_digest != known.digest:
                yield known
