"""``gitopsctl engines pool``: rings of engine clusters in which the planner adds and gives up instances by itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import typer

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, database_time, fleet, give_order
from services.cli.output import OUTPUT, Output, Row, print_rows
from services.common.kafka import DEFAULT_ENGINE_CLUSTER
from services.common.messages import RINGS, RemoveEnginePool, SetEnginePool
from services.common.startup import await_dependency
from services.planner.database.fleet_queries import load_measured_tenants_on
from services.planner.database.pool_queries import load_burdens
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.pools.overload import explain_overload, instances_to_relieve
from services.planner.domain.fleet.pools.pools import MOST_CAPACITY, MOST_INSTANCES
from services.planner.engines.available import ENGINES

app = typer.Typer(help="Rings of clusters that grow and shrink by themselves.", no_args_is_help=True)

CLUSTER = typer.Option(DEFAULT_ENGINE_CLUSTER, "--cluster", help="Engine cluster that the instances run in.")
RING = typer.Option("general", "--ring", help=f"Their ring: {', '.join(RINGS)}.")
MINIMUM = typer.Option(1, "--min", min=0, max=MOST_INSTANCES, help="Instances that there are at least.")
MAXIMUM = typer.Option(..., "--max", min=0, max=MOST_INSTANCES, help="Instances that there are at most.")
SPARE = typer.Option(1, "--spare", min=0, max=MOST_INSTANCES, help="Instances beyond those that the load needs.")
CAPACITY = typer.Option(
    2500, "--capacity", min=1, max=MOST_CAPACITY, help="Applications, of each instance that is added."
)
VERSION = typer.Option(..., "--version", help="Of Argo CD, of each instance that is added.")
PROFILE = typer.Option("", "--profile", help="Configuration of each that is added; if not given, the usual one.")
COLUMNS = {
    "cluster": "cluster",
    "ring": "ring",
    "instances": "instances",
    "minimum": "min",
    "maximum": "max",
    "spare": "spare",
    "applications": "applications",
    "capacity": "capacity each",
    "version": "version",
    "profile": "profile",
    "leaving": "gives up",
    "message": "message",
}


@app.command("list")
def list_(output: Output = OUTPUT, url: str = READING_URL, timeout: float = TIMEOUT) -> None:
    """List the pools, with what each carries, and what it lacks."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    print_rows(pool_rows(shown), COLUMNS, output, nothing="there is no pool: instances are added by hand")


@app.command("set")
def set_(  # noqa: PLR0913, PLR0917 - an option for each thing that a pool has
    cluster: str = CLUSTER,
    ring: str = RING,
    minimum: int = MINIMUM,
    maximum: int = MAXIMUM,
    spare: int = SPARE,
    capacity: int = CAPACITY,
    version: str = VERSION,
    profile: str = PROFILE,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a ring of a cluster grows and shrinks with its load; instances that are there count."""
    order = SetEnginePool(cluster, ring, minimum, maximum, spare, capacity, version, profile)
    give_order(order, url, timeout, output, dry_run=dry_run)


@app.command()
def remove(
    cluster: str = CLUSTER,
    ring: str = RING,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a ring of a cluster does not change by itself any more; its instances stay."""
    give_order(RemoveEnginePool(cluster, ring), url, timeout, output, dry_run=dry_run)


def pool_rows(shown: Fleet) -> list[Row]:
    """A row for each pool, by cluster and ring; with how many instances and Applications it has."""
    instances, applications = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in shown.instances.values():
        if row.engine_class == "shared" and not row.is_retired:
            instances[row.engine_cluster, row.ring] += 1
            applications[row.engine_cluster, row.ring] += shown.holding(row.id).deployments
    return [
        {
            "cluster": pool.engine_cluster,
            "ring": pool.ring,
            "instances": instances[key],
            "minimum": pool.minimum,
            "maximum": pool.maximum,
            "spare": pool.spare,
            "applications": applications[key],
            "capacity": pool.capacity,
            "version": pool.version,
            "profile": pool.profile,
            "leaving": pool.leaving or "",
            "message": pool.message,
            "shrinksAt": pool.shrinks_at,
        }
        for key, pool in sorted(shown.pools.items())
    ]


def overload_of(url: str, instance: str, shown: Fleet) -> str:
    """Why an instance carries more than it should; empty if it does not. Raises Retry."""
    now = database_time(url)
    with connected(url) as connection:
        burdens = load_burdens(connection, now)
        read = instances_to_relieve(instance, shown, burdens, now)
        if read:
            shown = replace(shown, tenants=load_measured_tenants_on(connection, ENGINES, read))
    return explain_overload(instance, shown, burdens, now)
