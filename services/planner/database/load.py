"""Reads tenants, whole, by their names: first which there are, then their rows, one plain statement per table.

Before a batch's first write no transaction is open; nobody else writes what is read then. After it, in the batch's
transaction, reads show what was written. Dormant rows are not read with their tenant, but when an event names them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.shared.resource import Check, PlainResource
from services.kinds.sync_run.rows import SyncRun
from services.planner.database.assignment_queries import ASSIGNMENTS, load_rules, rules_of
from services.planner.database.columns import columns_of, names
from services.planner.database.fleet_queries import load_measured
from services.planner.database.move_queries import UNDER_WAY
from services.planner.database.remedy_queries import IS_CORDONED, IS_DOWN, IS_OUT_OF_REACH
from services.planner.database.rollout_queries import IS_CLOSED
from services.planner.domain.changes import Changes
from services.planner.domain.dormancy import Lookup, woken
from services.planner.domain.fleet.placement.assignments import TenantPin
from services.planner.domain.fleet.rows import InstanceHealth, Move
from services.planner.domain.fleet.view import FleetView
from services.planner.domain.state import TenantState
from services.planner.engines.interface import Engine
from services.planner.rows import (
    ChildKey,
    ChildRow,
    EngineInstance,
    EngineObject,
    EngineObjectKey,
    KeptOrphans,
    Owner,
    ParkedTenant,
    PendingClaimRow,
    StoredStatus,
    Tenant,
    TenantName,
)

Row = Sequence[Any]
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

VIEWED = f"""
       id, namespace, state = 'accepting' AND NOT {IS_CORDONED} AND NOT {IS_CLOSED}, engine, dedicated_to, capacity,
       state IN ('draining', 'drained'), engine_cluster, {IS_DOWN}, {IS_OUT_OF_REACH}, region, ring,
       state IN ('provisioning', 'failed'), state = 'retired', state = 'drained'
"""
# Nothing comes to a retired instance. Rows name one that was lost until planners have withdrawn what it had. Each
# sub-query compares one column: of many instances PostgreSQL reads its table once, and not for each.
IS_NAMED = f"""
(state <> 'retired'
 OR EXISTS (SELECT FROM engine_resources e WHERE e.engine_instance_id = engine_instances.id)
 OR EXISTS (SELECT FROM tenants t WHERE t.engine_instance_id = engine_instances.id)
 OR EXISTS (SELECT FROM deployments d
             WHERE d.engine_instance_id = engine_instances.id AND d.engine_instance_id <> '')
 OR EXISTS (SELECT FROM moves m WHERE {UNDER_WAY} AND m.source = engine_instances.id)
 OR EXISTS (SELECT FROM moves m WHERE {UNDER_WAY} AND m.target = engine_instances.id))
"""
INSTANCES = f"SELECT {VIEWED} FROM engine_instances WHERE {IS_NAMED}"
SOME_INSTANCES = f"""
SELECT {VIEWED} FROM unnest(%s::text[]) AS affected(id) JOIN engine_instances USING (id) WHERE {IS_NAMED}
"""
INSTANCES_OF_RINGS = f"{INSTANCES} AND ring = ANY(%s)"
PLACEMENTS = """
SELECT tenant_id, engine_instance_id FROM placements
 UNION ALL
SELECT deployment_id, engine_instance_id FROM deployment_placements
"""

CLUSTERS_OF_INSTANCES = "SELECT id, engine_cluster FROM engine_instances WHERE id = ANY(%s)"

KEPT_ORPHANS = f"SELECT {names(KeptOrphans)} FROM kept_orphans WHERE engine_instance_id = ANY(%s)"

HEALTH = f"SELECT {names(InstanceHealth)} FROM engine_health WHERE engine_instance_id = ANY(%s)"

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


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the database knows of tenants that were asked for."""

    tenants: Mapping[TenantName, Sequence[TenantState]]
    """By name: those that have it and had it, as far as there is anything of them."""
    parked: frozenset[UUID]
    """Those of which events are kept."""
    fleet: FleetView
    defects: Mapping[UUID, Exception] = field(default_factory=dict)
    """Tenants whose objects could not be read, and why: this build does not know their engine, or that failed."""

    def is_in_doubt(self, name: TenantName) -> bool:
        """Whether a tenant that has the name or had it is parked, or could not be read."""
        return any(each.tenant.id in self.parked or each.tenant.id in self.defects for each in self.tenants[name])


def load(connection: Connection[Any], wanted: Collection[TenantName], known: FleetView) -> Loaded:
    """The tenants with these names, and the fleet as far as they need it: all else is as it is ``known``.

    A name that no tenant has may be a new one's, which may go to any instance: then all are read.
    """
    columns = _columns(sorted(wanted), 2)
    with connection.pipeline():
        rows = connection.execute(TENANTS, columns, binary=True)
        kept = connection.execute(PARKED, columns, binary=True)
        assigned = connection.execute(ASSIGNMENTS_OF, ([*{workspace for workspace, _ in wanted}],), binary=True)
        pinned = connection.execute(PINS_OF, columns, binary=True)
    found = {row[0]: Tenant(*row) for row in rows}
    fleet = replace(known, rules=known.rules.with_read(wanted, rules_of(assigned, pinned)))
    if {each.full_name for each in found.values() if not each.is_former}.issuperset(wanted) and known.instances:
        fleet = _with_named(connection, fleet, (each.engine_instance_id for each in found.values()))
    else:
        fleet = replace(fleet, instances=_fleet(connection.execute(INSTANCES), known.engines).instances)
    parked = [ParkedTenant(*row) for row in kept]
    # Of one that could not be placed there is nothing else.
    tenants = {each.tenant_id: each.unplaced for each in parked}
    states, defects = _load_rows(connection, tenants | found, fleet)
    fleet = _with_named(connection, fleet, (each for state in states.values() for each in _instances_named(state)))
    of_name: dict[TenantName, list[TenantState]] = {name: [] for name in wanted}
    for each in sorted(states):
        of_name[states[each].tenant.full_name].append(states[each])
    return Loaded(of_name, frozenset(each.tenant_id for each in parked), fleet, defects)


def _with_named(connection: Connection[Any], fleet: FleetView, named: Iterable[str]) -> FleetView:
    """With those instances that rows name and ``fleet`` lacks: they were added since it was read."""
    missing = sorted({*named} - {""} - fleet.instances.keys())
    if not missing:
        return fleet
    found = _fleet(connection.execute(SOME_INSTANCES, (missing,)), fleet.engines).instances
    return replace(fleet, instances={**fleet.instances, **found})


def _instances_named(state: TenantState) -> Iterator[str]:
    """Where a tenant has something, or will have."""
    yield from {each.engine_instance_id for each in state.deployments.values()}
    yield from state.held
    if state.move is not None:
        yield from (state.move.source, state.move.target)


def _load_rows(
    connection: Connection[Any], tenants: Mapping[UUID, Tenant], fleet: FleetView
) -> tuple[dict[UUID, TenantState], dict[UUID, Exception]]:
    """The tenants with their rows; without their objects those whose engine fails, and why."""
    if not tenants:
        return {}, {}
    lanes, defects = _lanes(tenants.values(), fleet)
    known = sorted(tenants)
    current = [(each, *tenants[each].full_name) for each in known if not tenants[each].is_former]
    with connection.pipeline():
        objects = connection.execute(OBJECTS, _columns(lanes, 2), binary=True)
        moves = connection.execute(MOVES, (known,), binary=True)
        deployments = connection.execute(DEPLOYMENTS, (known,), binary=True)
        resources = connection.execute(RESOURCES, (known,), binary=True)
        forced = connection.execute(FORCED_DELETIONS, (known,), binary=True)
        children = connection.execute(CHILD_OBJECTS, _columns(current, 3), binary=True)
        asked = connection.execute(PENDING_CLAIMS, _columns(current, 3), binary=True)
        dormant = connection.execute(ADMITTED_DORMANT, (known,), binary=True)
    held, left, wanted = _held(objects), _forced_deletions(forced), _child_objects(children)
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
            held=held.get(each, {}),
            move=moved.get(each),
            admitted_dormant=counts.get(each, {}),
        )
        for each in known
    }
    return _with_rows(states, deployments, resources), defects


def load_fleet(connection: Connection[Any], engines: Mapping[str, Engine]) -> FleetView:
    """The engine instances, what each carries, and what operators have assigned."""
    fleet = _fleet(connection.execute(INSTANCES), engines)
    return replace(fleet, load=load_measured(connection, engines), rules=load_rules(connection))


def reload_fleet(connection: Connection[Any], before: FleetView, written: Changes) -> FleetView:
    """``before`` with what ``written`` affects read anew; what instances carry stays as it is known."""
    if not before.instances:
        instances = _fleet(connection.execute(INSTANCES), before.engines).instances
    else:
        affected = written.instances_affected
        unaffected = {known: row for known, row in before.instances.items() if known not in affected}
        changed = [*connection.execute(SOME_INSTANCES, (sorted(affected),))] if affected else []
        if written.rings_affected:
            changed += connection.execute(INSTANCES_OF_RINGS, ([*written.rings_affected],))
        instances = {**unaffected, **_fleet(changed, before.engines).instances}
    rules = load_rules(connection) if written.affects_rules else before.rules
    return replace(before, instances=instances, rules=rules)


def load_placements(connection: Connection[Any]) -> dict[UUID, str]:
    """Instances of tenants that were placed before the database was lost, and of their deployments on others."""
    return dict(connection.execute(PLACEMENTS).fetchall())


def load_engine_clusters(connection: Connection[Any], instances: Collection[str]) -> dict[str, str]:
    """The engine cluster of each of these instances, retired ones too, as far as there is one."""
    return dict(connection.execute(CLUSTERS_OF_INSTANCES, (sorted(instances),)).fetchall())


def load_kept_orphans(connection: Connection[Any], instances: Collection[str]) -> dict[str, KeptOrphans]:
    """What agents of these instances keep though no row desires it."""
    rows = connection.execute(KEPT_ORPHANS, (sorted(instances),))
    return {each.engine_instance_id: each for each in (KeptOrphans(*row) for row in rows)}


def load_engine_health(connection: Connection[Any], instances: Collection[str]) -> dict[str, InstanceHealth]:
    """How these instances are, as their agents told last."""
    rows = connection.execute(HEALTH, (sorted(instances),))
    return {each.engine_instance_id: each for each in (InstanceHealth(*row) for row in rows)}


def look_up(
    connection: Connection[Any], states: Mapping[UUID, TenantState], lookups: Mapping[UUID, Lookup]
) -> dict[UUID, TenantState]:
    """``states`` with the dormant rows that ``lookups``, by tenant, ask for."""
    ids = sorted({each for lookup in lookups.values() for each in lookup.ids})
    named = sorted((tenant, kind, name) for tenant, lookup in lookups.items() for kind, name in lookup.names)
    deployments_named = [(tenant, name) for tenant, kind, name in named if kind == GITOPS_DEPLOYMENT.kind]
    resources_named = [each for each in named if each[1] != GITOPS_DEPLOYMENT.kind]
    crowded = sorted((tenant, kind, count) for tenant, lookup in lookups.items() for kind, count in lookup.waiting)
    with connection.pipeline():
        deployments = connection.execute(NAMED_DEPLOYMENTS, (ids, *_columns(deployments_named, 2)), binary=True)
        keys = (ids, *_columns(resources_named, 3), *_columns(crowded, 3))
        resources = connection.execute(NAMED_RESOURCES, keys, binary=True)
    found = _with_rows(dict(states), deployments, resources)
    return {known: woken(state, states[known]) for known, state in found.items()}


def _fleet(rows: Iterable[Row], engines: Mapping[str, Engine]) -> FleetView:
    return FleetView({row[0]: EngineInstance(*row) for row in rows}, engines)


def _cuts(*kinds: type[Any]) -> tuple[tuple[type[Any], slice], ...]:
    """Where the columns of each of ``kinds`` are in a joined row."""
    ends = [*accumulate((len(columns_of(kind)) for kind in kinds), initial=0)]
    return tuple((kind, slice(*span)) for kind, span in zip(kinds, pairwise(ends), strict=True))


DEPLOYMENT_CUTS = _cuts(Deployment, Observed, StoredStatus)
RESOURCE_CUTS = _cuts(PlainResource, Check, SyncRun, StoredStatus)
"""Worked out once: a row is cut many times."""


def _with_rows(
    states: dict[UUID, TenantState], deployments: Iterable[Row], resources: Iterable[Row]
) -> dict[UUID, TenantState]:
    """In one order, whatever the database's: a plan has to come out the same each time."""
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


def _lanes(tenants: Iterable[Tenant], fleet: FleetView) -> tuple[list[tuple[UUID, str]], dict[UUID, Exception]]:
    lanes: list[tuple[UUID, str]] = []
    defects: dict[UUID, Exception] = {}
    for tenant in tenants:
        try:
            if tenant.engine_instance_id:
                lanes.append((tenant.id, fleet.engine(tenant).lane(tenant.id)))
        except Exception as defect:
            defects[tenant.id] = defect
    return lanes, defects


def _held(rows: Iterable[Row]) -> dict[UUID, dict[str, dict[EngineObjectKey, EngineObject]]]:
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


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[number] for row in rows] for number in range(count)]
