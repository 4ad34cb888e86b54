"""The audit of a plan: operations that it opens, and what has become of those that are open.

An operation stays open only while an agent still has something to find out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal
from uuid import UUID

from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.lifecycle import refusal_of
from services.kinds.shared.rows import Resource
from services.kinds.sync_run.rules import OVER
from services.planner.domain import audit
from services.planner.domain.objects import made_for
from services.planner.domain.planned import Context, Planned
from services.planner.rows import Operation, OperationMoved

Outcome = tuple[Literal["Completed", "Failed"], str]
COMPLETED: Outcome = ("Completed", "")


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
                yield audit.opened(known, deployment, tenant, actor)
        elif resource is not None and context.rules.kinds[resource.kind].audited:
            before = context.before.resources.get(subject)
            if before is None or _is_change(before, resource):
                yield audit.opened_for_resource(before, resource, tenant, actor)


def _superseded(planned: Planned, context: Context) -> Iterator[OperationMoved]:
    for subject, cause in planned.touched.items():
        deployment, resource = planned.state.deployments.get(subject), planned.state.resources.get(subject)
        known = context.before.deployments.get(subject)
        before = context.before.resources.get(subject)
        if known is not None and deployment is not None and _is_change(known, deployment):
            yield audit.superseded(known, deployment, cause)
        audited = resource is not None and context.rules.kinds[resource.kind].audited
        if audited and before is not None and resource is not None and _is_change(before, resource):
            yield audit.superseded(before, resource, cause)


def _is_change(before: Deployment | Resource, now: Deployment | Resource) -> bool:
    return (before.wanted, before.generation if before.wanted else 0) != (
        now.wanted,
        now.generation if now.wanted else 0,
    )


def _concluded(planned: Planned, finished: Collection[UUID], context: Context) -> Iterator[OperationMoved]:
    """The ends of operations of touched resources that have come to their end."""
    for subject, cause in planned.touched.items():
        known = planned.state.resources.get(subject)
        if known is not None and context.rules.kinds[known.kind].audited:
            over = subject in finished or _is_remembered_only(planned, known)
            outcome = COMPLETED if over else _outcome(planned, known, context)
            if outcome is not None:
                yield OperationMoved(audit.change_id(known), *outcome, cause.at)


def _is_remembered_only(planned: Planned, known: Resource) -> bool:
    """A run whose CR is gone and that is over: its row stays, but nothing more happens."""
    run = planned.state.sync_runs.get(known.id)
    return not known.present and run is not None and run.state in OVER


def _outcome(planned: Planned, known: Resource, context: Context) -> Outcome | None:
    """The outcome of a change that is refused, or that an engine has nothing to do for; None while it has."""
    refusal = refusal_of(known)
    if refusal is not None and known.wanted:
        return ("Failed", f"{refusal.reason}: {refusal.message}")
    kind = context.rules.kinds[known.kind]
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
