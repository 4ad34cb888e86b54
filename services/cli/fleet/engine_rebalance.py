"""``gitopsctl engines rebalance``: tenants move until each engine instance, or some, carry what they should."""

from __future__ import annotations

from collections import Counter

import typer

from services.cli.database_connection import READING_URL
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, PlanTable, give_order
from services.cli.output import OUTPUT, Output, Row
from services.common.messages import RebalanceFleet, RebalanceInstances
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.measured_load import WAITING, in_applications

FROM = typer.Option([], "--from", metavar="INSTANCE", help="Move only tenants that are on it; may be repeated.")
TENANTS = {"tenant": "tenant", "load": "load", "from": "from", "to": "to", "step": "then at step"}
INSTANCES = {
    "instance": "instance",
    "state": "state",
    "capacity": "capacity",
    "before": "load now",
    "after": "load then",
}


def rebalance(
    sources: list[str] = FROM,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that tenants move until no instance carries more than 1.25 times its share; draining ones are emptied.

    As few tenants as that takes; those that are on their way already count where they will be. With --from the tenants
    of other instances stay: these are neither relieved nor emptied. --dry-run shows who would go where.
    """
    plan = {"tenants": PlanTable(tenant_rows, TENANTS), "instances": PlanTable(instance_rows, INSTANCES)}
    order = RebalanceInstances(tuple(dict.fromkeys(sources))) if sources else RebalanceFleet()
    give_order(order, url, timeout, output, plan, dry_run=dry_run)


def tenant_rows(planned: Fleet) -> list[Row]:
    """Tenants that move, by their names; also those that are on their way already."""
    load = {(tenant.id, tenant.engine_instance_id): tenant.load for tenant in planned.tenants.values()}
    found = [
        {
            "tenant": f"{move.workspace}/{move.namespace}",
            # A move goes on without what it is of: a former tenant, or a part whose last deployment is gone.
            "load": in_applications(load.get((move.tenant_id, move.holder), 0)),
            "from": move.source,
            "to": move.destination,
            "step": move.step,
        }
        for move in planned.moves.values()
    ]
    return sorted(found, key=lambda row: str(row["tenant"]))


def instance_rows(planned: Fleet) -> list[Row]:
    """What each instance that is not retired carries, before and after."""
    queues = Counter({instance: WAITING * health.queue for instance, health in planned.health.items()})
    before, after = queues.copy(), queues.copy()
    for tenant in planned.tenants.values():
        before[tenant.engine_instance_id] += tenant.load
        after[planned.destination_of(tenant)] += tenant.load
    return [
        {
            "instance": instance,
            "state": row.state,
            "capacity": row.capacity,
            "before": in_applications(before[instance]),
            "after": in_applications(after[instance]),
        }
        for instance, row in sorted(planned.instances.items())
        if not row.is_retired
    ]
