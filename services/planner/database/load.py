"""Reads tenants, whole, by their names: first which there are, then their rows, one plain statement per table.

Before a batch's first write no transaction is open; nobody else writes what is read then. After it, in the batch's
transaction, reads show what was written. Dormant rows are not read with their tenant, but when an event names them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from psycopg import Connection

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import ForcedDeletion
from services.planner.database.assignment_queries import ASSIGNMENTS, rules_of
from services.planner.database.columns import names, split_columns
from services.planner.database.joined_rows import DEPLOYMENT_ROWS, RESOURCE_ROWS, Row, fill_states
from services.planner.database.placement_view_queries import read_all_instances, read_named_instances
from services.planner.domain.fleet.placement.assignments import TenantPin
from services.planner.domain.fleet.placement_view import PlacementView
from services.planner.domain.fleet.rows import Move
from services.planner.domain.state import TenantState
from services.planner.rows.compiled import ChildKey, ChildRow, EngineObject, EngineObjectKey, Owner, PendingClaimRow
from services.planner.rows.consumption import ParkedTenant
from services.planner.rows.tenants import Tenant, TenantName

NAMED = "unnest(%b::text[], %b::text[]) AS named(workspace, namespace)"
TENANTS = f"SELECT {names(Tenant, 't')} FROM {NAMED} JOIN tenants t USING (workspace, namespace)"
PARKED = f"SELECT {names(ParkedTenant, 'p')} FROM {NAMED} JOIN parked_tenants p USING (workspace, namespace)"

ASSIGNMENTS_OF = f"{ASSIGNMENTS} WHERE workspace = ANY(%b::text[])"
PINS_OF = f"SELECT {names(TenantPin, 'p')} FROM {NAMED} JOIN tenant_pins p USING (workspace, namespace)"

MOVES = f"""
SELECT {names(Move)} FROM moves
 WHERE tenant_id = ANY(%b::uuid[]) AND step NOT IN ('ordered', 'done', 'cancelled')
"""

OBJECTS = f"""
SELECT wanted.id, e.engine_instance_id, e.kind, e.name,
       e.desired = 'present', e.digest, octet_length(e.manifest), e.owner_kind, e.owner_id
  FROM unnest(%b::uuid[], %b::text[]) AS wanted(id, lane)
  JOIN engine_resources e ON e.lane = wanted.lane AND e.owner_kind <> '{GITOPS_DEPLOYMENT.kind}'
"""

# A former tenant has none: they went with its namespace.
CHILD_OBJECTS = f"""
SELECT wanted.id, {names(ChildRow, "o")}
  FROM unnest(%b::uuid[], %b::text[], %b::text[]) AS wanted(id, workspace, namespace)
  JOIN workspace_objects o USING (workspace, namespace)
"""
PENDING_CLAIMS = f"""
SELECT wanted.id, {names(PendingClaimRow, "c")}
  FROM unnest(%b::uuid[], %b::text[], %b::text[]) AS wanted(id, workspace, namespace)
  JOIN pending_claims c USING (workspace, namespace)
"""

DEPLOYMENTS = f"{DEPLOYMENT_ROWS} WHERE d.tenant_id = ANY(%b::uuid[]) AND NOT d.dormant"
RESOURCES = f"{RESOURCE_ROWS} WHERE r.tenant_id = ANY(%b::uuid[]) AND NOT r.dormant"
# One index has just these.
ADMITTED_DORMANT = """
SELECT tenant_id, kind, count(*) FROM resources
 WHERE tenant_id = ANY(%b::uuid[]) AND dormant AND present AND NOT over_quota
 GROUP BY tenant_id, kind
"""
FORCED_DELETIONS = f"SELECT {names(ForcedDeletion)} FROM forced_deletions WHERE tenant_id = ANY(%b::uuid[])"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the database knows of tenants that were asked for."""

    tenants: Mapping[TenantName, Sequence[TenantState]]
    """By name: those that have it and had it, as far as there is anything of them."""
    parked: frozenset[UUID]
    """Those of which events are kept."""
    fleet: PlacementView
    defects: Mapping[UUID, Exception] = field(default_factory=dict)
    """Tenants whose objects could not be read, and why: this build does not know their engine, or that failed."""

    def is_in_doubt(self, name: TenantName) -> bool:
        """Whether a tenant that has the name or had it is parked, or could not be read."""
        return any(each.tenant.id in self.parked or each.tenant.id in self.defects for each in self.tenants[name])


def load(connection: Connection[Any], wanted: Collection[TenantName], known: PlacementView) -> Loaded:
    """The tenants with these names, and the fleet as far as they need it: all else is as it is ``known``.

    A name that no tenant has may be a new one's, which may go to any instance: then all are read.
    """
    columns = split_columns(sorted(wanted), 2)
    with connection.pipeline():
        rows = connection.execute(TENANTS, columns, binary=True)
        kept = connection.execute(PARKED, columns, binary=True)
        assigned = connection.execute(ASSIGNMENTS_OF, ([*{workspace for workspace, _ in wanted}],), binary=True)
        pinned = connection.execute(PINS_OF, columns, binary=True)
    found = {row[0]: Tenant(*row) for row in rows}
    fleet = replace(known, rules=known.rules.with_read(wanted, rules_of(assigned, pinned)))
    if {each.full_name for each in found.values() if not each.is_former}.issuperset(wanted) and known.instances:
        fleet = read_named_instances(connection, fleet, (each.engine_instance_id for each in found.values()))
    else:
        fleet = read_all_instances(connection, fleet)
    parked = [ParkedTenant(*row) for row in kept]
    # Of one that could not be placed there is nothing else.
    tenants = {each.tenant_id: each.unplaced for each in parked}
    states, defects = _load_rows(connection, tenants | found, fleet)
    fleet = read_named_instances(
        connection, fleet, (each for state in states.values() for each in _instances_named(state))
    )
    of_name: dict[TenantName, list[TenantState]] = {name: [] for name in wanted}
    for each in sorted(states):
        of_name[states[each].tenant.full_name].append(states[each])
    return Loaded(of_name, frozenset(each.tenant_id for each in parked), fleet, defects)


def _instances_named(state: TenantState) -> Iterator[str]:
    """Where a tenant has something, or will have."""
    yield from {each.engine_instance_id for each in state.deployments.values()}
    yield from state.objects_by_instance
    if state.move is not None:
        yield from (state.move.source, state.move.target)


def _load_rows(
    connection: Connection[Any], tenants: Mapping[UUID, Tenant], fleet: PlacementView
) -> tuple[dict[UUID, TenantState], dict[UUID, Exception]]:
    """The tenants with their rows; without their objects those whose engine fails, and why."""
    if not tenants:
        return {}, {}
    lanes, defects = _lanes(tenants.values(), fleet)
    known = sorted(tenants)
    current = [(each, *tenants[each].full_name) for each in known if not tenants[each].is_former]
    with connection.pipeline():
        objects = connection.execute(OBJECTS, split_columns(lanes, 2), binary=True)
        moves = connection.execute(MOVES, (known,), binary=True)
        deployments = connection.execute(DEPLOYMENTS, (known,), binary=True)
        resources = connection.execute(RESOURCES, (known,), binary=True)
        forced = connection.execute(FORCED_DELETIONS, (known,), binary=True)
        children = connection.execute(CHILD_OBJECTS, split_columns(current, 3), binary=True)
        asked = connection.execute(PENDING_CLAIMS, split_columns(current, 3), binary=True)
        dormant = connection.execute(ADMITTED_DORMANT, (known,), binary=True)
    by_instance, left, wanted = _objects_by_instance(objects), _forced_deletions(forced), _child_objects(children)
    pending = _pending_claims(asked)
    counts: dict[UUID, dict[str, int]] = defaultdict(dict)
    for tenant, kind, count in dormant:
        counts[tenant][sys.intern(kind)] = count
    moved = {move.tenant_id: move for move in (Move(*row) for row in moves)}
    states = {
        each: TenantState(
            tenants[each],
            forced_deletions=left.get(each, {}),
            child_objects=wanted.get(each, {}),
            pending_claims=pending.get(each, {}),
            objects_by_instance=by_instance.get(each, {}),
            move=moved.get(each),
            admitted_dormant=counts.get(each, {}),
        )
        for each in known
    }
    return fill_states(states, deployments, resources), defects


def _lanes(tenants: Iterable[Tenant], fleet: PlacementView) -> tuple[list[tuple[UUID, str]], dict[UUID, Exception]]:
    lanes: list[tuple[UUID, str]] = []
    defects: dict[UUID, Exception] = {}
    for tenant in tenants:
        try:
            if tenant.engine_instance_id:
                lanes.append((tenant.id, fleet.engine(tenant).lane(tenant.id)))
        except Exception as defect:
            defects[tenant.id] = defect
    return lanes, defects


def _objects_by_instance(rows: Iterable[Row]) -> dict[UUID, dict[str, dict[EngineObjectKey, EngineObject]]]:
    """By tenant and instance: one that is moved has objects on two."""
    found: dict[UUID, dict[str, dict[EngineObjectKey, EngineObject]]] = defaultdict(lambda: defaultdict(dict))
    for known, instance, kind, name, wanted, digest, size, owner_kind, owner_id in rows:
        found[known][sys.intern(instance)][sys.intern(kind), name] = EngineObject(
            wanted, digest, size, Owner(sys.intern(owner_kind), owner_id)
        )
    return found


def _forced_deletions(rows: Iterable[Row]) -> dict[UUID, dict[UUID, ForcedDeletion]]:
    found: dict[UUID, dict[UUID, ForcedDeletion]] = defaultdict(dict)
    for each in sorted((ForcedDeletion(*row) for row in rows), key=lambda each: each.id):
        found[each.tenant_id][each.id] = each
    return found


def _child_objects(rows: Iterable[Row]) -> dict[UUID, dict[ChildKey, ChildRow]]:
    found: dict[UUID, dict[ChildKey, ChildRow]] = defaultdict(dict)
    for known, *columns in rows:
        row = ChildRow(*columns)
        found[known][row.key] = row
    return found


def _pending_claims(rows: Iterable[Row]) -> dict[UUID, dict[str, PendingClaimRow]]:
    found: dict[UUID, dict[str, PendingClaimRow]] = defaultdict(dict)
    for known, *columns in rows:
        row = PendingClaimRow(*columns)
        found[known][row.uid] = row
    return found
