"""Compiles the statuses of the custom resources that a batch concerns.

A name has a row of ``workspace_statuses`` as long as a resource of that name exists and has a status. The row belongs
to the incarnation that exists; the row of a former one is replaced or deleted.

Statuses of deployments are compiled first, because other steps read them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from services.common.json_values import digest
from services.kinds.gitops_deployment import status as deployment_status
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.managed_environment.model import MANAGED_ENVIRONMENT
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.child_deployments import child_deployments, owners_of_touched
from services.planner.domain.indexed_rows import differing
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.environments import owners_differing
from services.planner.domain.steps.forced_deletions import left_by_formers
from services.planner.domain.steps.handover.moved_deployments import shows_former_status
from services.planner.rows.compiled import StatusKey, StoredStatus, WorkspaceKey, WorkspaceRow
from services.planner.rows.tenants import Tenant

NO_STATUS = "{}"

Concerned = tuple[str, Deployment | PlainResource, Cause]
"""A kind, a resource of it whose status may have changed, and the cause."""


def compile_deployment_statuses(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the statuses of deployments that were touched."""
    return _compiled(planned, list(_deployments_concerned(planned)), context)


def compile_resource_statuses(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with the statuses of all other resources that are concerned."""
    return _compiled(planned, list(_resources_concerned(planned, context)), context)


def _compiled(planned: PlannedTenant, concerned: Collection[Concerned], context: Context) -> PlannedTenant:
    names = {each.id: each.name for each in planned.state.plain_resources_of_kind(MANAGED_ENVIRONMENT.kind).values()}
    owned = planned.state.objects_by_owner()
    owners = _owners(planned.state, concerned)
    for kind, touched, at in concerned:
        key = (kind, touched.name)
        stored = planned.state.statuses.get(key)
        owner = touched if touched.present else owners.get(key)
        if owner is None:
            if stored is not None and stored.uid == touched.uid:
                planned = _withdraw(planned, key, stored)
        elif not isinstance(owner, Deployment) or owner.id in planned.touched:
            own = stored if stored is not None and stored.uid == owner.uid else None
            previous = own.status if own is not None else NO_STATUS
            cause = planned.touched.get(owner.id, at)
            if isinstance(owner, Deployment):
                release = owner.releasable
                is_former = own is not None and shows_former_status(planned.state, owner)
                status = previous if is_former else _of_deployment(planned, owner, previous, cause.at, names, context)
            else:
                release = _is_releasable(planned, owner, owned)
                status = _of_resource(planned, owner, previous, cause.at, context)
            now = StoredStatus(owner.uid, owner.generation, status, release)
            if (status, release) != (previous, own is not None and own.release_finalizer):
                planned, stamp = _stamped(planned, owner, own, cause)
                planned = _write(planned, key, now, stamp)
            elif own is None and stored is not None:
                planned = _withdraw(planned, key, stored)
    return planned


def _deployments_concerned(planned: PlannedTenant) -> Iterator[Concerned]:
    """Deployments that were touched."""
    for subject, cause in planned.touched.items():
        if subject in planned.state.deployments:
            yield GITOPS_DEPLOYMENT.kind, planned.state.deployments[subject], cause


def _resources_concerned(planned: PlannedTenant, context: Context) -> Iterator[Concerned]:
    """Resources that were touched, or whose status shows something that differs."""
    state, owners = planned.state, dict(owners_of_touched(planned))
    for subject in sorted({*_resources_differing(planned, context), *owners}):
        resource = state.plain_resources[subject]
        if context.policy.kinds[resource.kind].compile_status is not None:
            at = planned.touched.get(subject) or owners.get(subject) or planned.cause
            if at is not None:
                yield resource.kind, resource, at


def _resources_differing(planned: PlannedTenant, context: Context) -> list[UUID]:
    state, before = planned.state, context.before
    found = dict.fromkeys(each for each in planned.touched if each in state.plain_resources)
    found |= dict.fromkeys(differing(state.plain_resources, before.plain_resources))
    found |= dict.fromkeys(differing(state.checks, before.checks))
    found |= dict.fromkeys(differing(state.sync_runs, before.sync_runs))
    found |= dict.fromkeys(owners_differing(state, before))
    return [each for each in found if each in state.plain_resources]


def _owners(state: TenantState, concerned: Iterable[Concerned]) -> dict[StatusKey, Deployment | PlainResource]:
    """For names of which an incarnation is gone, the incarnation that exists."""
    named = state.ids_named({(kind, touched.name) for kind, touched, _ in concerned if not touched.present})
    rows = ((name, row) for name, known in named.items() for row in map(state.find, reversed(known)))
    return {name: row for name, row in rows if row is not None and row.present}


def _of_deployment(
    planned: PlannedTenant,
    owner: Deployment,
    previous: str,
    at: datetime,
    environments: Mapping[UUID, str],
    context: Context,
) -> str:
    observed = planned.state.observed.get(owner.id)
    shown = deployment_status.sync_error_shown(previous)
    report = context.engine.read_status(observed.status if observed else "", shown, environments)
    left = left_by_formers(planned.state, owner)
    return deployment_status.compile_deployment_status(owner, observed, report, previous, at, left)


def _of_resource(
    planned: PlannedTenant,
    owner: PlainResource,
    previous: str,
    at: datetime,
    context: Context,
) -> str:
    state, compile_status = planned.state, context.policy.kinds[owner.kind].compile_status
    if compile_status is None:
        return previous
    digest = state.checked_digest(owner.id) if owner.id in state.checks else None
    own, check = state.sync_runs.get(owner.id), state.checks.get(owner.id)
    there = own is None or own.state != "Waiting" or _is_there(state, own.deployment_name)
    deployments = child_deployments(state, owner)
    limits = context.policy.limits
    return compile_status(StatusInputs(owner, own, check, digest, previous, at, limits, there, deployments))


def _is_there(state: TenantState, name: str) -> bool:
    """Whether a deployment of this name exists and is not being deleted."""
    return any(each.name == name and each.is_active for each in state.deployments.values())


def _is_releasable(planned: PlannedTenant, owner: PlainResource, owned: Collection[UUID]) -> bool:
    """Whether the finalizer of a resource can go: it is being deleted, and no engine has anything of it."""
    return owner.deleting and owner.finalizer and owner.id not in owned


def _stamped(
    planned: PlannedTenant, owner: Deployment | PlainResource, own: StoredStatus | None, cause: Cause
) -> tuple[PlannedTenant, Cause]:
    """The cause of a status: the change of the CR for the first status after it, then the event of each status."""
    changed = Cause(owner.seen_at, owner.trace_id)
    if isinstance(owner, PlainResource):
        return planned, changed if own is None or own.generation < owner.generation else cause
    observed = planned.state.observed.get(owner.id)
    if observed is None:
        return planned, changed
    if observed.status_generation >= owner.generation:
        return planned, cause
    now = replace(observed, status_generation=owner.generation)
    return planned.with_state(planned.state.with_observed(now)), changed


def _write(planned: PlannedTenant, key: StatusKey, now: StoredStatus, stamp: Cause) -> PlannedTenant:
    row, shown = status_row(planned.state.tenant, key, now, stamp), planned.shown
    return planned._replace(state=planned.state.with_status(key, now), shown=replace(shown, rows=(*shown.rows, row)))


def _withdraw(planned: PlannedTenant, key: StatusKey, stored: StoredStatus) -> PlannedTenant:
    gone, shown = WorkspaceKey(*planned.state.tenant.full_name, *key, stored.uid), planned.shown
    return planned._replace(state=planned.state.without_statuses(key), shown=replace(shown, gone=(*shown.gone, gone)))


def status_row(tenant: Tenant, key: StatusKey, now: StoredStatus, stamp: Cause) -> WorkspaceRow:
    """The row with the status ``now``. Its latency is measured from ``stamp``."""
    kind, name = key
    return WorkspaceRow(
        workspace=tenant.workspace,
        namespace=tenant.namespace,
        kind=kind,
        name=name,
        uid=now.uid,
        generation=now.generation,
        status=now.status,
        release_finalizer=now.release_finalizer,
        digest=digest(now.status),
        trace_id=stamp.trace_id,
        seen_at=stamp.at,
    )
