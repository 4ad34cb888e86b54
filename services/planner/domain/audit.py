"""The audit of a plan: operations that it opens, and what has become of those that are open.

An operation is a row for one change of a resource. It stays open only while an agent still has something to find out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal
from uuid import UUID

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.lifecycle import refusal_of
from services.kinds.shared.rows import Cause, Resource
from services.kinds.sync_run.rules import OVER
from services.planner.domain.ids import operation_id
from services.planner.domain.planned import Context, Planned, made_for
from services.planner.rows import Action, Operation, OperationMoved, OperationState, Tenant

DELETION = "deletion"
RESYNC_ACTOR = "resync"
REPLACED_ACTOR = "replaced"
Outcome = tuple[Literal["Completed", "Failed"], str]
COMPLETED: Outcome = ("Completed", "")


def change_id(subject: Deployment | Resource) -> UUID:
    """Id of the operation that made the CR what it is now."""
    change = f"generation/{subject.generation}" if subject.wanted else DELETION
    return operation_id(subject.id, change)


def operations(
    planned: Planned, finished: Collection[UUID], context: Context
) -> tuple[tuple[Operation, ...], tuple[OperationMoved, ...]]:
    """Those opened, with what has become of them already, and what has become of older ones."""
    opened = {operation.id: operation for operation in _opened(planned, context)}
    moved: dict[UUID, OperationMoved] = {}
    for outcome in (*_superseded(planned, context), *planned.outcomes, *_concluded(planned, finished, context)):
        if outcome.id in opened:
            opened[outcome.id] = replace(opened[outcome.id], state=outcome.state, message=outcome.message)
        else:
            moved[outcome.id] = outcome
    return tuple(opened.values()), tuple(moved.values())


def _opened(planned: Planned, context: Context) -> Iterator[Operation]:
    tenant = planned.state.tenant
    for subject in planned.touched:
        actor = planned.actors.get(subject, "")
        deployment, resource = planned.state.deployments.get(subject), planned.state.resources.get(subject)
        if deployment is not None:
            known = context.before.deployments.get(subject)
            if known is None or _is_change(known, deployment) or known.problem != deployment.problem:
                yield _opened_of(known, deployment, tenant, actor)
        elif resource is not None and context.policy.kinds[resource.kind].audited:
            before = context.before.resources.get(subject)
            if before is None or _is_change(before, resource):
                yield _opened_for(before, resource, tenant, actor)


def _superseded(planned: Planned, context: Context) -> Iterator[OperationMoved]:
    for subject, cause in planned.touched.items():
        deployment, resource = planned.state.deployments.get(subject), planned.state.resources.get(subject)
        known = context.before.deployments.get(subject)
        before = context.before.resources.get(subject)
        if known is not None and deployment is not None and _is_change(known, deployment):
            yield _superseded_by(known, deployment, cause)
        audited = resource is not None and context.policy.kinds[resource.kind].audited
        if audited and before is not None and resource is not None and _is_change(before, resource):
            yield _superseded_by(before, resource, cause)


def _is_change(before: Deployment | Resource, now: Deployment | Resource) -> bool:
    return (before.wanted, before.generation if before.wanted else 0) != (
        now.wanted,
        now.generation if now.wanted else 0,
    )


def _concluded(planned: Planned, finished: Collection[UUID], context: Context) -> Iterator[OperationMoved]:
    """The ends of operations of touched resources that have come to their end."""
    for subject, cause in planned.touched.items():
        known = planned.state.resources.get(subject)
        if known is not None and context.policy.kinds[known.kind].audited:
            over = subject in finished or _is_remembered_only(planned, known)
            outcome = COMPLETED if over else _outcome(planned, known, context)
            if outcome is not None:
                yield OperationMoved(change_id(known), *outcome, cause.at)


def _is_remembered_only(planned: Planned, known: Resource) -> bool:
    """A run whose CR is gone and that is over: its row stays, but nothing more happens."""
    run = planned.state.sync_runs.get(known.id)
    return not known.present and run is not None and run.state in OVER


def _outcome(planned: Planned, known: Resource, context: Context) -> Outcome | None:
    """The outcome of a change that is refused, or that an engine has nothing to do for; None while it has."""
    refusal = refusal_of(known)
    if refusal is not None and known.wanted:
        return ("Failed", f"{refusal.reason}: {refusal.message}")
    kind = context.policy.kinds[known.kind]
    if not known.wanted:
        return None
    if kind.check_reasons is None:
        return COMPLETED if kind.accept_spec is not None else None  # there is nothing that an agent may find out
    key = made_for(known, context.engine)
    before, now = context.before.objects.get(key), planned.state.objects.get(key)
    check = planned.state.checks.get(known.id)
    if now is not None and now == before and check is not None and check.digest == now.digest:
        return COMPLETED
    return None


def _opened_of(before: Deployment | None, now: Deployment, tenant: Tenant, actor: str) -> Operation:
    """The audit row of a deployment's step from ``before`` to ``now``."""
    return _operation(
        before, now, tenant, actor, kind=GITOPS_DEPLOYMENT.kind, outcome=(_state(before, now), now.problem)
    )


def _opened_for(before: Resource | None, now: Resource, tenant: Tenant, actor: str) -> Operation:
    """The audit row of a resource's step; what agents find out completes it."""
    return _operation(before, now, tenant, actor, kind=now.kind, outcome=("Waiting", ""))


def _superseded_by(before: Deployment | Resource, now: Deployment | Resource, cause: Cause) -> OperationMoved:
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
