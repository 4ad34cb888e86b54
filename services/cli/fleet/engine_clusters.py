"""``gitopsctl engine-clusters``: the clusters that engine instances run in, and what each has at the brokers."""

from __future__ import annotations

from collections import Counter

import typer

from services.cli.database_connection import READING_URL, TIMEOUT
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, fleet, give_order, stop_if_refused
from services.cli.kafka import topics
from services.cli.output import OUTPUT, Output, Row, print_rows, tell
from services.common.kafka import load_acls, load_topics
from services.common.messages import (
    AddEngineCluster,
    DrainEngineCluster,
    RetireEngineCluster,
    UndrainEngineCluster,
)
from services.common.startup import await_dependency
from services.planner.domain.fleet.fleet import Fleet

app = typer.Typer(help="Clusters that engine instances run in.", no_args_is_help=True)

ID = typer.Argument(..., metavar="ID", help="DNS label: ENGINE_CLUSTER of its agents.")
KNOWN = typer.Argument(..., metavar="ID", help="Of the cluster, as 'engine-clusters list' shows it.")
REGION = typer.Option("", "--region", help="Where it is; none if the installation has no regions.")
COLUMNS = {"id": "id", "region": "region", "state": "state", "instances": "instances", "createdAt": "added at"}


@app.command("list")
def list_(output: Output = OUTPUT, url: str = READING_URL, timeout: float = TIMEOUT) -> None:
    """List the clusters, and how many instances each has that are not retired."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    print_rows(cluster_rows(shown), COLUMNS, output, nothing="there is no engine cluster")


@app.command()
def add(
    cluster: str = ID,
    region: str = REGION,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    replication_factor: int = topics.REPLICATION_FACTOR,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Give a cluster topics and principals that can use no other cluster's; then order that there is the cluster.

    The password of the principal agent-<ID> is taken from KAFKA_PASSWORD_AGENT_<ID>. Needs a planner at work, and
    KAFKA_… of an operator. Safe to run again: if there is the cluster, nothing changes. 'keys generate' makes
    sealing keys of its agents' own.

    1. The order is tried as --dry-run tries it. One that would be refused, as of a retired cluster, makes nothing.
    2. The topics.     Crash: nothing is written to them yet.
    3. The principals. Crash: they read a topic that is empty. Rights that they have besides stay.
    4. The order.      From then on instances may be added, and Connect writes the rows of their tenants to the topic:
                       if there were none, everybody's rows would wait for it.
    """
    (name,) = topics.known_clusters([cluster])
    order = AddEngineCluster(name, region)
    stop_if_refused(order, url, timeout, output, dry_run=dry_run)
    say = typer.echo if output is Output.TABLE else tell  # a program reads one document
    topics.make_topics(load_topics(engine_cluster=name), timeout, replication_factor, say, dry_run=dry_run)
    if not dry_run:
        topics.grant_rights(load_acls(engine_cluster=name), timeout, say, keep=True)
    give_order(order, url, timeout, output, dry_run=dry_run)


@app.command()
def drain(
    cluster: str = KNOWN,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a cluster takes no instances, and its own take no tenants. Those stay until a rebalance moves them."""
    give_order(DrainEngineCluster(cluster), url, timeout, output, dry_run=dry_run)


@app.command()
def undrain(
    cluster: str = KNOWN,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a cluster takes instances again, and that those take tenants which were drained with it."""
    give_order(UndrainEngineCluster(cluster), url, timeout, output, dry_run=dry_run)


@app.command()
def retire(
    cluster: str = KNOWN,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a cluster is given up, for good. Refused while it has an instance that is not retired, or a pool.

    Its topics and its principals stay at the brokers.
    """
    give_order(RetireEngineCluster(cluster), url, timeout, output, dry_run=dry_run)


def cluster_rows(shown: Fleet) -> list[Row]:
    """A row for each cluster, by their ids; with how many instances it has that are not retired."""
    used = Counter(each.engine_cluster for each in shown.instances.values() if not each.is_retired)
    return [
        {
            "id": each.id,
            "region": each.region,
            "state": each.state,
            "instances": used[each.id],
            "createdAt": each.created_at,
        }
        for _, each in sorted(shown.clusters.items())
    ]
