"""From the state of the database and a batch of events to the rows that must be written.

Called by the service once per batch. Pure: the same state and events make the same changes, whatever the time. What
counts is how things stand at the end of the batch. Raises Wait if a new tenant cannot be placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from services.common.argocd_names import uid_of
from services.common.messages import (
    Applied,
    Command,
    Failed,
    Observation,
    Removed,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    StatusReported,
)
from services.common.messages.compiled import RowKind
from services.planner import audit, ids, plan_resources
from services.planner.compile import changes_of
from services.planner.draft import Draft
from services.planner.events import Due, Event
from services.planner.kinds import gitops_deployment, resources
from services.planner.kinds.conditions import THROTTLING_SHOWN
from services.planner.kinds.lifecycle import Origin, gone, is_late, swept
from services.planner.kinds.names import GITOPS_DEPLOYMENT
from services.planner.rows import Cause, Changes, Deployment, OperationMoved, OperationState, State, SweepScope, Tenant
from services.planner.rules import Rules
from services.planner.settle import settled


def plan(state: State, events: Sequence[Event], rules: Rules) -> Changes:
    """What ``events``, in their order, change of ``state``."""
    draft = Draft(state, rules)
    for event in events:
        match event.message:
            case Command() as command:
                _command(draft, command, event)
            case Observation() as observation:
                _observation(draft, observation, event.cause)
            case Due() as due:
                _look_again(draft, due, event.cause)
    return changes_of(draft)


def _look_again(draft: Draft, due: Due, cause: Cause) -> None:
    deployment, resource = draft.deployments.get(due.id), draft.resources.get(due.id)
    if deployment is not None:
        calm = due.at - deployment.seen_at >= THROTTLING_SHOWN
        now = gitops_deployment.eased(deployment) if calm else deployment
        draft.put(settled(draft, now), cause, actor="")
    elif resource is not None:
        draft.resources[resource.id] = resources.eased(resource)
        draft.resource_causes[resource.id] = cause


def _command(draft: Draft, command: Command, event: Event) -> None:
    match command.event:
        case ResyncCompleted() as marker:
            _sweep(draft, SweepScope(command.source, marker.kind, event.partition, marker.epoch), event.cause)
        case ResourceChanged() as state if state.kind != GITOPS_DEPLOYMENT:
            plan_resources.changed(draft, command, state, event)
        case ResourceGone() as state if state.kind != GITOPS_DEPLOYMENT:
            plan_resources.disappeared(draft, command, state, event.cause)
        case ResourceChanged() as state:
            _changed(draft, command, state, event)
        case ResourceGone() as state:
            known = draft.deployments.get(ids.resource_id(command.workspace, state.uid))
            if known is not None:
                now = gone(known, state.resource_version, event.cause)
                draft.put(settled(draft, now), event.cause, actor="")


def _changed(draft: Draft, command: Command, changed: ResourceChanged, event: Event) -> None:
    """A CR of the same name and another uid is an older incarnation, or the event is a late one of an older."""
    tenant = draft.tenant(command.workspace, command.namespace, event.partition)
    origin = Origin(tenant.id, command.source, ids.resource_id(command.workspace, changed.uid))
    known = draft.deployments.get(origin.id)
    rivals = [other for other in draft.namesakes(tenant.id, changed.name) if other.present and other.uid != changed.uid]
    if any(is_late(changed, other) for other in [*rivals, *filter(None, [known])]):
        return
    for rival in rivals:
        older = gone(rival, rival.resource_version, event.cause)
        draft.put(settled(draft, older), event.cause, audit.REPLACED_ACTOR)
    now = gitops_deployment.changed(known, changed, origin, event.cause, draft.rules.addresses)
    draft.put(settled(draft, now), event.cause, changed.actor)


def _sweep(draft: Draft, scope: SweepScope, cause: Cause) -> None:
    """Treat what a complete list did not show as gone, unless that is an implausible share of what is known."""
    if scope not in draft.state.sweeps:
        return
    if scope.kind != GITOPS_DEPLOYMENT:
        plan_resources.sweep(draft, scope, cause)
        return
    unseen = [known for known in draft.deployments.values() if plan_resources.is_unseen(draft, known, scope)]
    if not draft.rules.guard.allows(len(unseen), draft.state.sweeps[scope]):
        draft.refused_sweeps.append(scope)
        return
    for deployment in unseen:
        draft.put(settled(draft, swept(deployment, scope.epoch, cause)), cause, audit.RESYNC_ACTOR)


def _observation(draft: Draft, observation: Observation, cause: Cause) -> None:
    """Observations of another tenant's or instance's objects, and of kinds that need no answer, change nothing."""
    tenant = draft.tenants.get(ids.tenant_id(observation.workspace, observation.namespace))
    if tenant is None or tenant.engine_instance_id != observation.engine_instance_id:
        return
    if observation.kind == RowKind.APP_PROJECT:
        _project_observed(draft, tenant, observation, cause)
        return
    if observation.kind != RowKind.APPLICATION:
        plan_resources.observed(draft, tenant, observation, cause)
        return
    uid = uid_of(observation.name)
    deployment = draft.deployments.get(ids.resource_id(observation.workspace, uid))
    if deployment is not None and deployment.tenant_id == tenant.id and deployment.spec is not None:
        _observed(draft, deployment, observation, cause)


def _project_observed(draft: Draft, tenant: Tenant, observation: Observation, cause: Cause) -> None:
    """What an AppProject suffers is shown where users look: on the deployments that wait for it."""
    held = draft.holding(tenant.id, RowKind.APP_PROJECT, observation.name)
    match observation.event:
        case Removed():
            draft.holdings_removed.add((tenant.id, (RowKind.APP_PROJECT, observation.name)))
            draft.tenant_causes[tenant.id] = cause
        case Failed(digest=digest) as failed if held is not None and held.wanted and held.digest == digest:
            for waiting in _waiting_for_project(draft, tenant):
                own = replace(failed, digest=waiting.digest or "", message=f"AppProject: {failed.message}")
                _observed(draft, waiting, replace(observation, event=own), cause)


def _waiting_for_project(draft: Draft, tenant: Tenant) -> list[Deployment]:
    """Wanted deployments of the tenant whose manifest no engine was seen to hold."""
    wanted = [d for d in draft.deployments.values() if d.tenant_id == tenant.id and d.wanted and d.spec is not None]
    applied = {known.deployment_id: known.applied_digest for known in draft.observed.values()}
    return [deployment for deployment in wanted if applied.get(deployment.id) != deployment.digest]


def _observed(draft: Draft, deployment: Deployment, observation: Observation, cause: Cause) -> None:
    known = draft.observed.get(deployment.id) or gitops_deployment.unobserved(deployment)
    match observation.event:
        case StatusReported() as status:
            draft.touch(deployment, gitops_deployment.reported(known, status, cause), cause)
        case Applied() as applied:
            now = gitops_deployment.applied(known, applied, deployment)
            draft.touch(deployment, now, cause)
            if now != known and deployment.wanted:
                draft.move(OperationMoved(audit.change_id(deployment), "Completed", "", cause.at))
        case Failed() as failed:
            now = gitops_deployment.failed(known, failed, deployment)
            draft.touch(deployment, now, cause)
            if now != known:
                state: OperationState = "Failed" if failed.permanent else "Waiting"
                draft.move(OperationMoved(audit.change_id(deployment), state, now.failure, cause.at))
        case Removed(forced=forced) if not deployment.wanted:
            draft.removed(deployment, cause, "the engine did not finish in time" if forced else "")
