"""Child objects that are GitOpsDeployments, with how each is according to its own status.

The status of their owner shows that, and a promotion waits for it. So a plan compiles the statuses of deployments
first.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import orjson

from services.common.messages import ChildKind
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.child_objects import ChildDeployment, DeploymentState
from services.kinds.shared.resource import Cause, PlainResource
from services.planner.domain.ids import resource_id
from services.planner.domain.planned_tenant import PlannedTenant
from services.planner.domain.state import TenantState


def state_named(state: TenantState, name: str) -> DeploymentState:
    """How the deployment of this name is, by its newest status. A deployment without a status has no known state."""
    stored = state.statuses.get((GITOPS_DEPLOYMENT.kind, name))
    return stored.deployment_state if stored is not None else DeploymentState()


def child_deployments(state: TenantState, owner: PlainResource) -> tuple[ChildDeployment, ...]:
    """The deployments that a resource wants, sorted by name."""
    rows = state.child_objects_by_owner().get(owner.uid, {})
    return tuple(
        ChildDeployment(name, orjson.loads(row.manifest)["labels"], state_named(state, name))
        for (kind, name), row in sorted(rows.items())
        if kind == ChildKind.DEPLOYMENT and row.desired == "present"
    )


def owners_of_touched(planned: PlannedTenant) -> Iterator[tuple[UUID, Cause]]:
    """Resources that have a touched deployment, and why it was touched."""
    state = planned.state
    if not state.child_objects:
        return
    for subject, cause in planned.touched.items():
        deployment = state.deployments.get(subject)
        row = state.child_objects.get((ChildKind.DEPLOYMENT.value, deployment.name)) if deployment is not None else None
        owner = resource_id(row.workspace, row.owner_uid) if row is not None else None
        if owner is not None and owner in state.plain_resources:
            yield owner, cause
