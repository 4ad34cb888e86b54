"""Child objects that are GitOpsDeployments, and how these are: what the status of their owner shows."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import orjson

from services.common.messages import ChildKind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.status import state_shown
from services.kinds.shared.child_objects import ChildDeployment, DeploymentState
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.ids import resource_id
from services.planner.domain.indexed_rows import Values, index_of
from services.planner.domain.planned_tenant import PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.rows import StoredStatus

STATES: Values[StoredStatus, DeploymentState] = Values(lambda stored: state_shown(stored.status))
"""What all statuses say of deployments; those of other kinds say nothing of that."""


class DeploymentStates:
    """How deployments are, as their newest statuses say it.

    A status may be long, and an owner has many deployments of which few change: each status is read once.
    """

    def __init__(self, before: TenantState) -> None:
        """``before``: the tenant before the batch, whose view of its statuses is kept."""
        self._before = before
        self._of_news: dict[str, DeploymentState] = {}

    def named(self, state: TenantState, name: str) -> DeploymentState:
        """Of the deployment of this name; nothing is known of one without a status."""
        key = (GITOPS_DEPLOYMENT.kind, name)
        stored = state.statuses.get(key)
        if stored is None:
            return DeploymentState()
        if stored is self._before.statuses.get(key):
            return index_of(self._before.statuses, STATES)[key]
        if stored.status not in self._of_news:
            self._of_news[stored.status] = state_shown(stored.status)
        return self._of_news[stored.status]


def child_deployments(
    state: TenantState, owner: PlainResource, states: DeploymentStates
) -> tuple[ChildDeployment, ...]:
    """Those that a resource wants, sorted by name."""
    rows = state.child_objects_by_owner().get(owner.uid, {})
    return tuple(
        ChildDeployment(name, orjson.loads(row.manifest)["labels"], states.named(state, name))
        for (kind, name), row in sorted(rows.items())
        if kind == ChildKind.DEPLOYMENT and row.desired == "present"
    )


def owners_of_touched(planned: PlannedTenant) -> Iterator[tuple[UUID, Cause]]:
    """Resources of which a deployment was touched, and why."""
    state = planned.state
    if not state.child_objects:
        return
    for subject, cause in planned.touched.items():
        deployment = state.deployments.get(subject)
        row = state.child_objects.get((ChildKind.DEPLOYMENT.value, deployment.name)) if deployment is not None else None
        owner = resource_id(row.workspace, row.owner_uid) if row is not None else None
        if owner is not None and owner in state.plain_resources:
            yield owner, cause
