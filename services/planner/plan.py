"""From the state of the database and a batch of events to the rows that must be written.

Called by the service once per batch. Pure: the same state and events make the same changes, whatever the time and
however the events were cut into batches. Raises Wait if a new tenant cannot be placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from services.planner import audit, ids
from services.planner.compile import changes_of
from services.planner.draft import Draft
from services.planner.engines import argocd
from services.planner.events import DeletionOverdue, Event
from services.planner.kinds import gitops_deployment
from services.planner.kinds.gitops_deployment import Origin
from services.planner.rows import Cause, Changes, Deployment, OperationMoved, OperationState, State, SweepScope, Tenant

REPLACED_ACTOR = "replaced"


@dataclass(frozen=True, slots=True)
class SweepGuard:
    """How much a resync may remove: at most ``share`` of what is known in its scope, but always ``minimum``."""

    share: float = 0.5
    minimum: int = 20

    def allows(self, removed: int, known: int) -> bool:
        """Whether so many may be gone at once."""
        return removed <= max(self.minimum, self.share * known)


def plan(state: State, events: Sequence[Event], guard: SweepGuard) -> Changes:
    """What ``events``, in their order, change of ``state``."""
    draft = Draft(state)
    for event in events:
        match event.message:
            case Command() as command:
                _command(draft, command, event, guard)
            case Observation() as observation:
                _observation(draft, observation, event.cause)
            case DeletionOverdue(deployment_id=overdue) if overdue in draft.deployments:
                draft.causes[overdue] = event.cause
    return changes_of(draft)


def _command(draft: Draft, command: Command, event: Event, guard: SweepGuard) -> None:
    match command.event:
        case ResourceChanged() as changed:
            _changed(draft, command, changed, event)
        case ResourceGone() as gone:
            known = draft.deployments.get(ids.deployment_id(command.workspace, gone.uid))
            if known is not None:
                now = gitops_deployment.gone(known, gone.resource_version, event.cause)
                draft.put(now, event.cause, actor="")
        case ResyncCompleted() as marker:
            scope = SweepScope(command.source, marker.kind, event.partition, marker.epoch)
            _sweep(draft, scope, event.cause, guard)


def _changed(draft: Draft, command: Command, changed: ResourceChanged, event: Event) -> None:
    """A CR of the same name and another uid is an older incarnation, or the event is a late one of an older."""
    tenant = draft.tenant(command.workspace, command.namespace, event.partition)
    origin = Origin(tenant.id, command.source, ids.deployment_id(command.workspace, changed.uid))
    known = draft.deployments.get(origin.deployment_id)
    rivals = [other for other in draft.namesakes(tenant.id, changed.name) if other.present and other.uid != changed.uid]
    if any(gitops_deployment.is_late(changed, other) for other in [*rivals, *filter(None, [known])]):
        return
    for rival in rivals:
        older = gitops_deployment.gone(rival, rival.resource_version, event.cause)
        draft.put(older, event.cause, REPLACED_ACTOR)
    draft.put(gitops_deployment.changed(known, changed, origin, event.cause), event.cause, changed.actor)


def _sweep(draft: Draft, scope: SweepScope, cause: Cause, guard: SweepGuard) -> None:
    """Treat what a complete list did not show as gone, unless that is an implausible share of what is known."""
    if scope not in draft.state.sweeps:
        return
    unseen = [deployment for deployment in draft.deployments.values() if _unseen(draft, deployment, scope)]
    if not guard.allows(len(unseen), draft.state.sweeps[scope]):
        draft.refused_sweeps.append(scope)
        return
    for deployment in unseen:
        draft.put(gitops_deployment.swept(deployment, scope.epoch, cause), cause, audit.RESYNC_ACTOR)


def _unseen(draft: Draft, deployment: Deployment, scope: SweepScope) -> bool:
    in_scope = (deployment.source, draft.tenants[deployment.tenant_id].partition) == (scope.source, scope.partition)
    return in_scope and deployment.present and deployment.epoch < scope.epoch


def _observation(draft: Draft, observation: Observation, cause: Cause) -> None:
    """Observations of another tenant's or instance's objects, and of kinds that need no answer, change nothing."""
    tenant = draft.tenants.get(ids.tenant_id(observation.workspace, observation.namespace))
    if tenant is None or tenant.engine_instance_id != observation.engine_instance_id:
        return
    if observation.kind == argocd.APP_PROJECT and observation.name == draft.home(tenant.id).project:
        _project_observed(draft, tenant, observation, cause)
        return
    uid = argocd.uid_of(observation.name) if observation.kind == argocd.APPLICATION else ""
    deployment = draft.deployments.get(ids.deployment_id(observation.workspace, uid))
    if deployment is not None and deployment.tenant_id == tenant.id and deployment.spec is not None:
        _observed(draft, deployment, observation, cause)


def _project_observed(draft: Draft, tenant: Tenant, observation: Observation, cause: Cause) -> None:
    """What an AppProject suffers is shown where users look: on the deployments that wait for it."""
    match observation.event:
        case Removed():
            draft.projects_removed.add(tenant.id)
            draft.tenant_causes[tenant.id] = cause
        case Failed(digest=digest) as failed if _is_current(draft, tenant, digest):
            for waiting in _waiting_for_project(draft, tenant):
                own = replace(failed, digest=waiting.digest or "", message=f"AppProject: {failed.message}")
                _observed(draft, waiting, replace(observation, event=own), cause)


def _is_current(draft: Draft, tenant: Tenant, digest: str) -> bool:
    project = draft.state.projects.get(tenant.id)
    return project is not None and project.wanted and project.digest == digest


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
