"""Audit rows: one per change of a resource, and what became of it. Pure."""

from __future__ import annotations

from uuid import UUID

from services.planner.ids import operation_id
from services.planner.rows import Action, Cause, Deployment, Operation, OperationMoved, OperationState, Tenant

DELETION = "deletion"
RESYNC_ACTOR = "resync"


def change_id(deployment: Deployment) -> UUID:
    """Id of the operation that made the deployment what it is now."""
    change = f"generation/{deployment.generation}" if deployment.wanted else DELETION
    return operation_id(deployment.id, change)


def opened(before: Deployment | None, now: Deployment, tenant: Tenant, kind: str, actor: str) -> Operation:
    """The audit row of the step from ``before`` to ``now``."""
    return Operation(
        id=change_id(now),
        deployment_id=now.id,
        workspace=tenant.workspace,
        namespace=tenant.namespace,
        kind=kind,
        name=now.name,
        generation=now.generation,
        action=_action(before, now),
        actor=actor.replace("\0", ""),
        state=_state(before, now),
        message=now.error,
        trace_id=now.trace_id,
        created_at=now.seen_at,
    )


def superseded(before: Deployment, now: Deployment, cause: Cause) -> OperationMoved:
    """The operation before ``now``, should it still be open: there is nothing left to do for it."""
    successor = f"generation {now.generation}" if now.wanted else "the deletion"
    return OperationMoved(change_id(before), "Completed", f"superseded by {successor}", cause.at)


def _action(before: Deployment | None, now: Deployment) -> Action:
    if not now.wanted:
        return "delete"
    return "create" if before is None or not before.wanted else "update"


def _state(before: Deployment | None, now: Deployment) -> OperationState:
    """Completed at once if the engine has nothing to do for it."""
    if now.error and now.wanted:
        return "Failed"
    compiled = (before.digest, before.wanted) if before is not None else (None, False)
    idle = now.digest is None or compiled == (now.digest, now.wanted)
    return "Completed" if idle else "Waiting"
