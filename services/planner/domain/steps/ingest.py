"""Stores custom resources and Secrets as watchers report them. Nothing is compiled yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from services.common.api_resource import SECRET
from services.common.messages import Command, LookAgain, ResourceChanged, ResourceGone
from services.kinds.gitops_deployment import rules as deployment_rules
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.secret.rules import is_late_reseal, without_secret
from services.kinds.shared import incarnation
from services.kinds.shared.conditions import THROTTLING_SHOWN
from services.kinds.shared.incarnation import clear_throttling, is_late, mark_gone, mark_swept
from services.kinds.shared.resource import Cause, Origin, PlainResource
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rules import OVER, first_seen
from services.kinds.sync_run.status import recalled
from services.planner.domain import audit, ids
from services.planner.domain.events import Event, Unseen
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.forced_deletions import forget_deletion
from services.planner.rows.tenants import ResourceName

IncarnationT = TypeVar("IncarnationT", Deployment, PlainResource)


def incarnations_named(state: TenantState, events: Sequence[Event]) -> dict[ResourceName, Collection[UUID]]:
    """Ids of all incarnations that bear a name which ``events`` change. They are looked up once."""
    commands = [each.message for each in events if isinstance(each.message, Command)]
    changes = [(each, each.event) for each in commands if isinstance(each.event, ResourceChanged)]
    found = state.ids_named({(changed.kind, changed.name) for _, changed in changes})
    for command, changed in changes:
        found[changed.kind, changed.name].append(ids.resource_id(command.workspace, changed.uid))
    return {name: dict.fromkeys(known) for name, known in found.items()}


def ingest_command(planned: PlannedTenant, command: Command, cause: Cause, context: Context) -> PlannedTenant:
    """The tenant after a watcher's report."""
    match command.event:
        case ResourceChanged() as changed:
            return _changed(planned, command, changed, cause, context)
        case ResourceGone() as event:
            known = planned.state.find(ids.resource_id(command.workspace, event.uid))
            return (
                planned if known is None else _put_gone(planned, mark_gone(known, event.resource_version, cause), cause)
            )
        case LookAgain(kind=kind):
            return _renewed(planned, kind, cause)
        case _:
            return planned


def ingest_unseen(planned: PlannedTenant, unseen: Unseen, cause: Cause) -> PlannedTenant:
    """The resources that a complete list did not show are gone, unless an event has shown them since."""
    for subject in sorted(unseen.ids):
        known = planned.state.find(subject)
        if known is not None and known.present and known.epoch < unseen.scope.epoch:
            planned = _put_gone(planned, mark_swept(known, unseen.scope.epoch, cause), cause, audit.RESYNC_ACTOR)
    return planned


def end_all(planned: PlannedTenant, cause: Cause) -> PlannedTenant:
    """Everything of the tenant is gone, whatever was reported: its namespace was made again.

    Its dormant rows are deleted when the plan is saved.
    """
    for deployment in planned.state.deployments.values():
        planned = _replaced(planned, deployment, cause)
    for resource in planned.state.plain_resources.values():
        planned = _replaced(planned, resource, cause)
    return planned.with_state(planned.state.without_forced_deletions(*planned.state.forced_deletions))


def look_again(planned: PlannedTenant, subject: UUID, cause: Cause) -> PlannedTenant:
    """Plan ``subject`` again, because it is due."""
    if (left := planned.state.forced_deletions.get(subject)) is not None:
        planned = forget_deletion(planned, left, cause)
    known = planned.state.find(subject)
    if known is None:
        return planned
    calm = cause.at - known.seen_at >= THROTTLING_SHOWN
    if isinstance(known, Deployment):
        return planned.with_row(clear_throttling(known) if calm else known, cause)
    rows = planned.state.with_plain_resources(clear_throttling(known)) if calm else planned.state
    return planned.with_state(rows).touching(known.id, cause)


def _renewed(planned: PlannedTenant, kind: str, cause: Cause) -> PlannedTenant:
    """The tenant with equal new rows for one kind, or all. Rows that are other objects are compiled anew."""
    deployments = planned.state.deployments.values() if kind in {"", GITOPS_DEPLOYMENT.kind} else ()
    resources = [each for each in planned.state.plain_resources.values() if kind in {"", each.kind}]
    for known in (*deployments, *resources):
        if known.present:
            planned = planned.with_row(replace(known), cause)
    return planned


def _changed(
    planned: PlannedTenant, command: Command, changed: ResourceChanged, cause: Cause, context: Context
) -> PlannedTenant:
    """The tenant with a changed resource. If another uid has the name, one of the two is an older incarnation."""
    state = planned.state
    origin = Origin(state.tenant.id, command.source, ids.resource_id(command.workspace, changed.uid))
    known = planned.state.find(origin.id)
    before_it = known if isinstance(known, PlainResource) else None
    if is_late_reseal(before_it, changed):
        return planned
    named = map(state.find, planned.incarnations[changed.kind, changed.name])
    rivals = [other for other in named if other is not None and other.present and other.uid != changed.uid]
    if any(is_late(changed, other) for other in [*rivals, *filter(None, [known])]):
        return planned
    for rival in rivals:
        planned = _replaced(planned, rival, cause)
    if changed.kind == GITOPS_DEPLOYMENT.kind:
        before = known if isinstance(known, Deployment) else None
        now = deployment_rules.update_deployment(before, changed, origin, cause, context.policy.addresses)
        return _with_report(planned, before, now, (cause, changed.actor), context)
    resource = incarnation.update_resource(context.policy.kinds[changed.kind], before_it, changed, origin, cause)
    planned = _with_report(planned, before_it, resource, (cause, changed.actor), context)
    return _with_run(planned, resource, changed.recalled_status, cause) if resource.kind == SYNC_RUN.kind else planned


def _with_run(planned: PlannedTenant, resource: PlainResource, status: str, cause: Cause) -> PlannedTenant:
    """The tenant with the run of ``resource``, as far as its ``status`` says that it has come."""
    known = planned.state.sync_runs.get(resource.id)
    run = recalled(known or first_seen(resource), resource, status)
    if run == known:
        return planned
    planned = planned.with_state(planned.state.with_sync_runs(run)).touching(resource.id, cause)._replace(cause=cause)
    return planned.with_outcome(audit.outcome_of_run(resource, run, cause.at)) if run.state in OVER else planned


def _replaced(planned: PlannedTenant, known: Deployment | PlainResource, cause: Cause) -> PlannedTenant:
    """The tenant without ``known``: another incarnation has its name."""
    if not known.present:
        return planned
    return planned.with_row(mark_gone(known, known.resource_version, cause), cause, audit.REPLACED_ACTOR)


def _with_report(
    planned: PlannedTenant, before: IncarnationT | None, now: IncarnationT, why: tuple[Cause, str], context: Context
) -> PlannedTenant:
    """The tenant with ``now`` as reported. If a list only showed ``before`` again, nothing is compiled."""
    if before is None or not context.is_known or not _is_sighting(before, now):
        return planned.with_row(now, *why)
    state = planned.state
    rows = state.with_deployments(now) if isinstance(now, Deployment) else state.with_plain_resources(now)
    return planned.with_state(rows)


def _is_sighting(before: IncarnationT, now: IncarnationT) -> bool:
    """Whether only the version differs. That of a Secret is compiled, so it counts."""
    if (
        isinstance(before, PlainResource)
        and before.kind == SECRET.kind
        and before.resource_version != now.resource_version
    ):
        return False
    return now == replace(before, epoch=now.epoch, resource_version=now.resource_version)


def _put_gone(planned: PlannedTenant, row: Deployment | PlainResource, cause: Cause, actor: str = "") -> PlannedTenant:
    """The tenant without the resource. If it is a Secret, resources that name it do not wait for it."""
    planned = planned.with_row(row, cause, actor)
    if not isinstance(row, PlainResource) or row.kind != SECRET.kind:
        return planned
    waiting = [
        known for known in planned.state.plain_resources.values() if known.refers_to == row.name and known.secret_type
    ]
    return planned.with_state(planned.state.with_plain_resources(*map(without_secret, waiting)))
