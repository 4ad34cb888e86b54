"""Audit rows: one per change of a resource, and what became of it. Pure."""

from __future__ import annotations

from uuid import UUID

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.rows import Cause, Resource
from services.planner.domain.ids import operation_id
from services.planner.rows import Action, Operation, OperationMoved, OperationState, Tenant

DELETION = "deletion"
RESYNC_ACTOR = "resync"
REPLACED_ACTOR = "replaced"


def change_id(subject: Deployment | Resource) -> UUID:
    """Id of the operation that made the CR what it is now."""
    change = f"generation/{subject.generation}" if subject.wanted else DELETION
    return operation_id(subject.id, change)


def opened(before: Deployment | None, now: Deployment, tenant: Tenant, actor: str) -> Operation:
    """The audit row of a deployment's step from ``before`` to ``now``."""
    return _operation(
        before, now, tenant, actor, kind=GITOPS_DEPLOYMENT.kind, outcome=(_state(before, now), now.problem)
    )


def opened_for_resource(before: Resource | None, now: Resource, tenant: Tenant, actor: str) -> Operation:
    """The audit row of a resource's step; what agents find out completes it."""
    return _operation(before, now, tenant, actor, kind=now.kind, outcome=("Waiting", ""))


def superseded(before: Deployment | Resource, now: Deployment | Resource, cause: Cause) -> OperationMoved:
    """The operation before ``now``, should it still be open: there is nothing left to do for it."""
    successor = f"generation {now.generation}" if now.wanted else "the deletion"
    return OperationMoved(change_id(before), "Completed", f"superseded by {successor}", cause.at)


def _operation(
    before: Deployment | Resource | None,
    now: Deployment | Resource,
    tenant: Tenant,
    actor: str,
    *,
    kind: str,
    outcome: tuple[OperationState, str],
) -> Operation:
    state, message = outcome
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
        state=state,
        message=message,
        trace_id=now.trace_id,
        created_at=now.seen_at,
    )


def _action(before: Deployment | Resource | None, now: Deployment | Resource) -> Action:
    if not now.wanted:
        return "delete"
    return "create" if before is None or not before.wanted else "update"


def _state(before: Deployment | None, now: Deployment) -> OperationState:
    """Completed at once if the engine has nothing to do for it."""
    if now.problem and now.wanted:
        return "Failed"
    compiled = (before.digest, before.wanted) if before is not None else (None, False)
    idle = now.offered is None and (now.digest is None or compiled == (now.digest, now.wanted))
    return "Completed" if idle else "Waiting"
