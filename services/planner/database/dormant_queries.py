"""Reads dormant rows of tenants that are loaded already: those that an event names, and what waits for room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.planner.database.columns import split_columns
from services.planner.database.joined_rows import DEPLOYMENT_ROWS, RESOURCE_ROWS, fill_states
from services.planner.domain.dormancy import Lookup, with_loaded_dormant
from services.planner.domain.state import TenantState

NAMED_DEPLOYMENTS = f"""
{DEPLOYMENT_ROWS} WHERE d.id IN (
    SELECT unnest(%b::uuid[])
     UNION
    SELECT known.id FROM unnest(%b::uuid[], %b::text[]) AS named(tenant_id, name)
      JOIN deployments known USING (tenant_id, name)
) AND d.dormant
"""
NAMED_RESOURCES = f"""
{RESOURCE_ROWS} WHERE r.id IN (
    SELECT unnest(%b::uuid[])
     UNION
    SELECT known.id FROM unnest(%b::uuid[], %b::text[], %b::text[]) AS named(tenant_id, kind, name)
      JOIN resources known USING (tenant_id, kind, name)
     UNION
    SELECT oldest.id FROM unnest(%b::uuid[], %b::text[], %b::int8[]) AS crowded(tenant_id, kind, wanted)
     CROSS JOIN LATERAL (SELECT waiting.id FROM resources waiting
                          WHERE (waiting.tenant_id, waiting.kind) = (crowded.tenant_id, crowded.kind)
                            AND waiting.over_quota AND waiting.dormant
                          ORDER BY waiting.created_at, waiting.id
                          LIMIT crowded.wanted) AS oldest
) AND r.dormant
"""


def look_up_dormant(
    connection: Connection[Any], states: Mapping[UUID, TenantState], lookups: Mapping[UUID, Lookup]
) -> dict[UUID, TenantState]:
    """``states`` with the dormant rows that ``lookups``, by tenant, ask for."""
    ids = sorted({each for lookup in lookups.values() for each in lookup.ids})
    named = sorted((tenant, kind, name) for tenant, lookup in lookups.items() for kind, name in lookup.names)
    deployments_named = [(tenant, name) for tenant, kind, name in named if kind == GITOPS_DEPLOYMENT.kind]
    resources_named = [each for each in named if each[1] != GITOPS_DEPLOYMENT.kind]
    crowded = sorted((tenant, kind, count) for tenant, lookup in lookups.items() for kind, count in lookup.waiting)
    with connection.pipeline():
        deployments = connection.execute(NAMED_DEPLOYMENTS, (ids, *split_columns(deployments_named, 2)), binary=True)
        keys = (ids, *split_columns(resources_named, 3), *split_columns(crowded, 3))
        resources = connection.execute(NAMED_RESOURCES, keys, binary=True)
    found = fill_states(dict(states), deployments, resources)
    return {known: with_loaded_dormant(state, states[known]) for known, state in found.items()}
