"""What a plan adds to the load of instances until the next measurement. Pure.

Thousands of tenants may come within the ten seconds between two measurements. Without this all of them would go to the
instance that was the emptiest at the last one.
"""

from __future__ import annotations

from collections import Counter

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.domain.changes import TenantChanges
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.state import TenantState
from services.planner.engines.interface import DEPLOYMENT_LOAD
from services.planner.rows.compiled import EngineRow


def added_load(planned: TenantChanges, before: TenantState, fleet: PlacementView) -> Counter[str]:
    """By instance, the load of objects that are new there; a new tenant counts as one deployment at least.

    Objects that a move brings do not count: they were measured when it was ordered. Objects that are removed count
    until the next measurement.
    """
    if planned.state is None or before.move is not None or planned.state.move is not None:
        return Counter()
    found = Counter[str]()
    for row in planned.written.engine:
        if not _was_there(row, before):
            engine = fleet.engines[fleet.instances[row.engine_instance_id].engine]
            found[row.engine_instance_id] += engine.load_of(row.kind)
    if not before.tenant.engine_instance_id:
        own = planned.tenant.engine_instance_id
        found[own] = max(found[own], DEPLOYMENT_LOAD)
    return found


def _was_there(row: EngineRow, before: TenantState) -> bool:
    if row.owner_kind == GITOPS_DEPLOYMENT.kind:
        deployment = before.deployments.get(row.owner_id)
        return deployment is not None and deployment.spec is not None
    return (row.kind, row.name) in before.objects_on(row.engine_instance_id)
