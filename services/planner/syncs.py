"""Which sync runs of a tenant are under way, and the orders that follow for its engine."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from uuid import UUID

from services.common.argocd_names import application_name
from services.planner import audit
from services.planner.draft import Draft
from services.planner.engines.argocd_secrets import sync_operation
from services.planner.kinds import sync_run
from services.planner.kinds.names import SYNC_RUN
from services.planner.rows import Cause, Deployment, OperationMoved, Resource, SyncRun


def arrange(draft: Draft, tenant_id: UUID, cause: Cause) -> dict[str, str]:
    """Let the tenant's runs take their turns; returns the orders by name of the Application."""
    orders = {}
    for name, runs in _by_deployment(draft, tenant_id).items():
        deployment = next((known for known in draft.namesakes(tenant_id, name) if known.present), None)
        arranged, sequence = sync_run.arrange(runs, deployment, deployment.sync_sequence if deployment else 0)
        if deployment is not None and sequence != deployment.sync_sequence:
            draft.deployments[deployment.id] = replace(deployment, sync_sequence=sequence)
        for now in arranged:
            _take_over(draft, now, cause)
            if now.state in sync_run.ACTIVE and now.deployment_id in draft.deployments:
                started_for = draft.deployments[now.deployment_id]
                orders[application_name(started_for.uid)] = _order(draft, now, started_for)
    return orders


def _by_deployment(draft: Draft, tenant_id: UUID) -> dict[str, list[tuple[Resource, SyncRun]]]:
    """Runs that are not over, by the name of what they sync."""
    runs: defaultdict[str, list[tuple[Resource, SyncRun]]] = defaultdict(list)
    for resource in draft.of_kind(tenant_id, SYNC_RUN):
        run = draft.sync_runs.get(resource.id)
        if run is not None and run.state not in sync_run.OVER:
            runs[run.deployment_name].append((resource, run))
    return runs


def _take_over(draft: Draft, now: SyncRun, cause: Cause) -> None:
    if draft.sync_runs.get(now.resource_id) == now:
        return
    draft.sync_runs[now.resource_id] = now
    draft.resource_causes.setdefault(now.resource_id, cause)
    if now.state in sync_run.OVER:
        succeeded = now.state == "Ended" and now.phase in {sync_run.SUCCEEDED, ""}
        change = audit.change_id(draft.resources[now.resource_id])
        draft.move(OperationMoved(change, "Completed" if succeeded else "Failed", now.message, cause.at))


def _order(draft: Draft, now: SyncRun, deployment: Deployment) -> str:
    run_uid = draft.resources[now.resource_id].uid
    revision = sync_run.revision_to_sync(now, deployment)
    return sync_operation(draft.home(deployment.tenant_id), deployment.uid, run_uid, now, revision)
