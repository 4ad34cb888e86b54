"""``gitopsctl engine-clusters``: the clusters that engine instances run in."""

from __future__ import annotations

from collections import Counter

import typer

from services.cli.fleet_orders import DRY_RUN, WAIT, fleet, give_order
from services.cli.output import OUTPUT, Output, Row, print_rows
from services.cli.owner_connection import TIMEOUT, URL
from services.common.messages import AddEngineCluster
from services.common.startup import await_dependency
from services.planner.domain.fleet_rows import Fleet

app = typer.Typer(help="Clusters that engine instances run in.", no_args_is_help=True)

ID = typer.Argument(..., metavar="ID", help="DNS label: ENGINE_CLUSTER of its agents.")
REGION = typer.Option("", "--region", help="Where it is; none if the installation has no regions.")
COLUMNS = {"id": "id", "region": "region", "instances": "instances", "createdAt": "added at"}


@app.command("list")
def list_(output: Output = OUTPUT, url: str = URL, timeout: float = TIMEOUT) -> None:
    """List the clusters, and how many instances each has that are not retired."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    print_rows(cluster_rows(shown), COLUMNS, output, nothing="there is no engine cluster")


@app.command()
def add(
    cluster: str = ID, region: str = REGION, url: str = URL, timeout: float = WAIT, *, dry_run: bool = DRY_RUN
) -> None:
    """Order that there is a cluster; if there is, nothing changes. Needs a planner at work, and KAFKA_…."""
    give_order(AddEngineCluster(cluster, region), url, timeout, dry_run=dry_run)


def cluster_rows(shown: Fleet) -> list[Row]:
    """By id."""
    used = Counter(each.engine_cluster for each in shown.instances.values() if not each.is_retired)
    return [
        {"id": each.id, "region": each.region, "instances": used[each.id], "createdAt": each.created_at}
        for _, each in sorted(shown.clusters.items())
    ]
