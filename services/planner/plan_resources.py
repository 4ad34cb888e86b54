"""Events of environments, credentials, sync runs and Secrets, and what agents report of what was made of them.

Called by ``plan``. Here rows are only taken over; what follows from them is settled once per batch and tenant.
"""

from __future__ import annotations

from uuid import UUID

from services.common.api.catalogue import credential, environment
from services.common.api.catalogue.entry import UNKNOWN_ERROR
from services.common.argocd_names import application_name
from services.common.messages import (
    Checked,
    Command,
    Failed,
    Observation,
    Removed,
    ResourceChanged,
    ResourceGone,
    SyncMoved,
)
from services.common.messages.compiled import RowKind
from services.planner import audit, ids
from services.planner.conclusions import NAMES
from services.planner.draft import Draft
from services.planner.engines.argocd_secrets import cluster_name, id_of, repository_name
from services.planner.events import Event
from services.planner.kinds import managed_environment, repository_credential, resources, sync_run
from services.planner.kinds.bounds import MAX_CHECK_MESSAGE, MAX_CHECK_REASON
from services.planner.kinds.lifecycle import Origin, gone, is_late, swept
from services.planner.kinds.names import MANAGED_ENVIRONMENT, REPOSITORY_CREDENTIAL, SECRET, SYNC_RUN
from services.planner.kinds.sealed_secret import without_secret
from services.planner.kinds.wording import readable
from services.planner.rows import (
    Cause,
    Check,
    Deployment,
    Holding,
    OperationMoved,
    OperationState,
    Resource,
    SweepScope,
    Tenant,
)

SUCCEEDED = frozenset({managed_environment.SUCCEEDED, repository_credential.UP_TO_DATE})
NOT_APPLIED = {
    MANAGED_ENVIRONMENT: environment.NOT_CREATED.reason,
    REPOSITORY_CREDENTIAL: credential.ENGINE_REFUSED[0].reason,
}
"""Reason of a secret that an engine's API server refuses."""


def changed(draft: Draft, command: Command, event: ResourceChanged, message: Event) -> None:
    """A resource exists with this content, unless that is old news."""
    tenant = draft.tenant(command.workspace, command.namespace, message.partition)
    origin = Origin(tenant.id, command.source, ids.resource_id(command.workspace, event.uid))
    known = draft.resources.get(origin.id)
    namesakes = draft.resource_namesakes(tenant.id, event.kind, event.name)
    rivals = [other for other in namesakes if other.present and other.uid != event.uid]
    if any(is_late(event, other) for other in [*rivals, *filter(None, [known])]):
        return
    for rival in rivals:
        older = gone(rival, rival.resource_version, message.cause)
        draft.put_resource(older, message.cause, audit.REPLACED_ACTOR)
    now = resources.changed(known, event, origin, message.cause)
    draft.put_resource(now, message.cause, event.actor)
    if now.kind == SYNC_RUN and now.id not in draft.sync_runs:
        draft.sync_runs[now.id] = sync_run.first_seen(now)


def disappeared(draft: Draft, command: Command, event: ResourceGone, cause: Cause) -> None:
    """A resource no longer exists."""
    known = draft.resources.get(ids.resource_id(command.workspace, event.uid))
    if known is not None:
        _put_gone(draft, gone(known, event.resource_version, cause), cause, actor="")


def sweep(draft: Draft, scope: SweepScope, cause: Cause) -> None:
    """What a complete list did not show is gone, unless that is an implausible share of what is known."""
    unseen = [
        known for known in draft.resources.values() if known.kind == scope.kind and is_unseen(draft, known, scope)
    ]
    if not draft.rules.guard.allows(len(unseen), draft.state.sweeps[scope]):
        draft.refused_sweeps.append(scope)
        return
    for known in unseen:
        _put_gone(draft, swept(known, scope.epoch, cause), cause, audit.RESYNC_ACTOR)


def is_unseen(draft: Draft, known: Deployment | Resource, scope: SweepScope) -> bool:
    """A resync of this scope should have shown it, and did not."""
    in_scope = (known.source, draft.tenants[known.tenant_id].partition) == (scope.source, scope.partition)
    return in_scope and known.present and known.epoch < scope.epoch


def observed(draft: Draft, tenant: Tenant, observation: Observation, cause: Cause) -> None:
    """What an agent found out or did about one of the tenant's secrets or syncs."""
    if isinstance(observation.event, SyncMoved):
        _sync_moved(draft, tenant, observation.workspace, observation.event, cause)
        return
    if observation.kind == RowKind.SYNC_OPERATION:
        _sync_refused(draft, tenant, observation, cause)
        return
    known = draft.resources.get(id_of(observation.name) or UUID(int=0))
    if known is None or known.tenant_id != tenant.id:
        return
    match observation.event:
        case Removed():
            draft.holdings_removed.add((tenant.id, (observation.kind, observation.name)))
            draft.unsettled.add(tenant.id)
            draft.concern(known, cause)
            draft.move(OperationMoved(audit.change_id(known), "Completed", "", cause.at))
        case Checked() as checked if _is_news(draft, known, observation.name, checked.digest):
            _checked(draft, known, checked, cause)
        case Failed(digest=digest) as failed if _is_news(draft, known, observation.name, digest):
            # The engine's own words are for operators, in the log of its agent.
            _checked(draft, known, Checked(digest, NOT_APPLIED.get(known.kind, ""), UNKNOWN_ERROR.message), cause)
            draft.move(OperationMoved(audit.change_id(known), "Failed", failed.message[:MAX_CHECK_MESSAGE], cause.at))


def _put_gone(draft: Draft, now: Resource, cause: Cause, actor: str) -> None:
    draft.put_resource(now, cause, actor)
    if now.kind == SECRET:
        for known in draft.resources_of(now.tenant_id):
            if known.refers_to == now.name:
                draft.resources[known.id] = without_secret(known)


def _is_news(draft: Draft, known: Resource, name: str, digest: str) -> bool:
    """A result for an older recipe says nothing any more once there is one for that which is out now."""
    if name not in {cluster_name(known.id), repository_name(known.id)}:
        return False
    held, check = _held(draft, known), draft.checks.get(known.id)
    has_result = held is not None and check is not None and check.digest == held.digest
    return not has_result or (held is not None and held.digest == digest)


def _checked(draft: Draft, known: Resource, checked: Checked, cause: Cause) -> None:
    before = draft.checks.get(known.id)
    reason = readable(checked.reason)[:MAX_CHECK_REASON]
    message = readable(checked.message)[:MAX_CHECK_MESSAGE]
    now = Check(known.id, checked.digest, reason, message, _worked(draft, known, checked, before))
    if now == before:
        return
    draft.checks[known.id] = now
    if before is not None and now.worked != before.worked:
        draft.unsettled.add(known.tenant_id)  # of the spec before it nothing is in force any more
    draft.concern(known, cause)
    state: OperationState = "Completed" if reason in SUCCEEDED else "Failed"
    draft.move(OperationMoved(audit.change_id(known), state, message, cause.at))


def _worked(draft: Draft, known: Resource, checked: Checked, before: Check | None) -> str:
    """The spec with which credentials last worked: that of the recipe which is out now, if the result is of that."""
    held = _held(draft, known)
    if checked.reason in SUCCEEDED and held is not None and held.digest == checked.digest:
        return known.accepted
    return before.worked if before is not None else ""


def _held(draft: Draft, known: Resource) -> Holding | None:
    kind, name = NAMES[known.kind]
    return draft.holding(known.tenant_id, kind, name(known.id))


def _sync_refused(draft: Draft, tenant: Tenant, observation: Observation, cause: Cause) -> None:
    """The engine will never take the order that is out now: its run has ended, so that the next may begin."""
    held = draft.holding(tenant.id, RowKind.SYNC_OPERATION, observation.name)
    match observation.event:
        case Failed(digest=digest, permanent=True) if held is not None and held.digest == digest:
            for run in [known for known in draft.sync_runs.values() if known.state in sync_run.ACTIVE]:
                started_for = draft.deployments.get(run.deployment_id) if run.deployment_id else None
                if started_for is not None and application_name(started_for.uid) == observation.name:
                    ended = SyncMoved(draft.resources[run.resource_id].uid, "Error", UNKNOWN_ERROR.message, "", "", "")
                    _sync_moved(draft, tenant, observation.workspace, ended, cause)


def _sync_moved(draft: Draft, tenant: Tenant, workspace: str, event: SyncMoved, cause: Cause) -> None:
    known = draft.sync_runs.get(ids.resource_id(workspace, event.run))
    if known is None or draft.resources[known.resource_id].tenant_id != tenant.id:
        return
    now = sync_run.moved(known, event)
    if now != known:
        draft.sync_runs[known.resource_id] = now
        draft.concern(draft.resources[known.resource_id], cause)
        if now.state == "Ended":
            state: OperationState = "Completed" if now.phase == sync_run.SUCCEEDED else "Failed"
            draft.move(OperationMoved(audit.change_id(draft.resources[now.resource_id]), state, now.message, cause.at))
