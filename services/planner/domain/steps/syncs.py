"""Decides which sync runs of a tenant are under way, and compiles the orders for its engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.shared.rows import Resource
from services.kinds.sync_run import rules as sync_run
from services.kinds.sync_run.rows import SyncRun
from services.planner.domain import audit
from services.planner.domain.planned import Context, Planned, want
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Manifest
from services.planner.rows import ObjectKey, OperationMoved, Role

Runs = list[tuple[Resource, SyncRun]]


def order_syncs(planned: Planned, context: Context) -> Planned:
    """Let the tenant's runs take their turns; an order that is not given any more is withdrawn."""
    state, before = planned.state, context.before
    rows = (state.sync_runs, state.resources, state.deployments)
    if all(
        now is then for now, then in zip(rows, (before.sync_runs, before.resources, before.deployments), strict=True)
    ):
        return planned
    orders: list[Manifest] = []
    given: set[ObjectKey] = set()
    deployments = {each.name: each for each in planned.state.deployments.values() if each.present}
    known = _open_runs(context.before)
    for name, runs in _open_runs(planned.state).items():
        deployment = deployments.get(name)
        if not _is_concerned(runs, known.get(name, []), deployment, context.before):
            given.update(_given(planned.state, runs, context))
            continue
        arranged, sequence = sync_run.arrange(runs, deployment, deployment.sync_sequence if deployment else 0)
        if deployment is not None and sequence != deployment.sync_sequence:
            counted = replace(deployment, sync_sequence=sequence)
            planned = planned.with_state(planned.state.with_deployments(counted))
        for run in arranged:
            planned = _take_over(planned, run)
        orders += _orders(planned.state, arranged, context)
    planned = want(planned, orders, Role.SYNC) if orders else planned
    given.update(order.key for order in orders)
    withdrawn = [key for key, held in planned.state.objects.items() if held.role is Role.SYNC and key not in given]
    return planned.with_state(planned.state.without_objects(*withdrawn)) if withdrawn else planned


def _is_concerned(runs: Runs, known: Runs, deployment: Deployment | None, before: TenantState) -> bool:
    """Whether anything that the turns of these runs follow from is not what it was."""
    if deployment is None or before.deployments.get(deployment.id) is not deployment or len(runs) != len(known):
        return True
    return any(now is not then for pair in zip(runs, known, strict=True) for now, then in zip(*pair, strict=True))


def _given(state: TenantState, runs: Runs, context: Context) -> Iterator[ObjectKey]:
    """Keys of the orders that stand for these runs."""
    for _, run in runs:
        deployment = state.deployments.get(run.deployment_id) if run.deployment_id is not None else None
        if run.state in sync_run.ACTIVE and deployment is not None:
            yield context.engine.sync_key(deployment.uid)


def _open_runs(state: TenantState) -> dict[str, Runs]:
    """Runs that are not over, by the name of what they sync."""
    runs: defaultdict[str, Runs] = defaultdict(list)
    for run in state.sync_runs.values():
        if run.state not in sync_run.OVER:
            runs[run.deployment_name].append((state.resources[run.resource_id], run))
    return dict(sorted(runs.items()))


def _take_over(planned: Planned, now: SyncRun) -> Planned:
    subject, cause = now.resource_id, planned.cause
    if cause is None or planned.state.sync_runs.get(subject) == now:
        return planned
    planned = planned.with_state(planned.state.with_sync_runs(now))
    if subject not in planned.touched:
        planned = planned.touching(subject, cause)
    if now.state not in sync_run.OVER:
        return planned
    succeeded = now.state == "Ended" and now.phase in {sync_run.SUCCEEDED, ""}
    change = audit.change_id(planned.state.resources[subject])
    outcome = OperationMoved(change, "Completed" if succeeded else "Failed", now.message, cause.at)
    return planned.with_outcome(outcome)


def _orders(state: TenantState, runs: list[SyncRun], context: Context) -> list[Manifest]:
    orders = []
    for run in runs:
        deployment = state.deployments.get(run.deployment_id) if run.deployment_id is not None else None
        if run.state in sync_run.ACTIVE and deployment is not None:
            run_uid, revision = state.resources[run.resource_id].uid, sync_run.revision_to_sync(run, deployment)
            orders.append(context.engine.sync(context.placement, deployment.uid, run_uid, run, revision))
    return orders
