"""Reads deployments and plain resources: each row is joined with its status, and with what agents report of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any
from uuid import UUID

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database.columns import columns_of, names
from services.planner.domain.state import TenantState
from services.planner.rows.compiled import StoredStatus

Row = Sequence[Any]
"""A row as psycopg returns it."""

# What is shown under a name is of its current tenant.
DEPLOYMENT_ROWS = f"""
SELECT {names(Deployment, "d")}, {names(Observed, "o")}, {names(StoredStatus, "w")}
  FROM deployments d
  JOIN tenants t ON t.id = d.tenant_id
  LEFT JOIN observed_states o ON o.deployment_id = d.id
  LEFT JOIN workspace_statuses w
    ON (w.workspace, w.namespace, w.kind, w.name) = (t.workspace, t.namespace, '{GITOPS_DEPLOYMENT.kind}', d.name)
   AND t.former_since = 0
"""
RESOURCE_ROWS = f"""
SELECT {names(PlainResource, "r")}, {names(Check, "c")}, {names(SyncRun, "s")}, {names(StoredStatus, "w")}
  FROM resources r
  JOIN tenants t ON t.id = r.tenant_id
  LEFT JOIN checks c ON c.resource_id = r.id
  LEFT JOIN sync_runs s ON s.resource_id = r.id
  LEFT JOIN workspace_statuses w
    ON (w.workspace, w.namespace, w.kind, w.name) = (t.workspace, t.namespace, r.kind, r.name)
   AND t.former_since = 0
"""


def _cuts(*kinds: type[Any]) -> tuple[tuple[type[Any], slice], ...]:
    """Where the columns of each of ``kinds`` are in a joined row."""
    ends = [*accumulate((len(columns_of(kind)) for kind in kinds), initial=0)]
    return tuple((kind, slice(*span)) for kind, span in zip(kinds, pairwise(ends), strict=True))


DEPLOYMENT_CUTS = _cuts(Deployment, Observed, StoredStatus)
RESOURCE_CUTS = _cuts(PlainResource, Check, SyncRun, StoredStatus)
"""Worked out once: a row is cut many times."""


def fill_states(
    states: dict[UUID, TenantState], deployments: Iterable[Row], resources: Iterable[Row]
) -> dict[UUID, TenantState]:
    """``states`` with these rows. In one order, whatever the database's: a plan has to come out the same each time."""
    deployed = _by_tenant(_parted(row, DEPLOYMENT_CUTS) for row in deployments)
    others = _by_tenant(_parted(row, RESOURCE_CUTS) for row in resources)
    return {known: _filled(state, deployed.get(known, []), others.get(known, [])) for known, state in states.items()}


def _filled(state: TenantState, deployed: list[list[Any]], others: list[list[Any]]) -> TenantState:
    if not deployed and not others:
        return state
    statuses = {(GITOPS_DEPLOYMENT.kind, row.name): status for row, _, status in deployed if status is not None}
    statuses |= {(row.kind, row.name): status for row, _, _, status in others if status is not None}
    return state._replace(
        deployments={**state.deployments, **{parts[0].id: parts[0] for parts in deployed}},
        observed={**state.observed, **{parts[0].id: parts[1] for parts in deployed if parts[1] is not None}},
        plain_resources={**state.plain_resources, **{parts[0].id: parts[0] for parts in others}},
        checks={**state.checks, **{parts[0].id: parts[1] for parts in others if parts[1] is not None}},
        sync_runs={**state.sync_runs, **{parts[0].id: parts[2] for parts in others if parts[2] is not None}},
        statuses={**state.statuses, **statuses},
    )


def _by_tenant(rows: Iterable[list[Any]]) -> dict[UUID, list[list[Any]]]:
    found: dict[UUID, list[list[Any]]] = defaultdict(list)
    for parts in sorted(rows, key=lambda parts: parts[0].id):
        found[parts[0].tenant_id].append(parts)
    return found


def _parted(row: Row, cuts: Sequence[tuple[type[Any], slice]]) -> list[Any]:
    """One joined row cut into a value of each kind; None where the join found nothing."""
    return [kind(*row[cut]) if row[cut.start] is not None else None for kind, cut in cuts]
