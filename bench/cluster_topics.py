"""``python -m bench.cluster_topics``: two ways to bring rows to the topic of their engine cluster, compared.

The connector makes the topic's name from a column, as it is, or ``engine_resources`` is partitioned by that column and
each partition is streamed under a name of its own, as statuses are for each workspace. Measured on one stack, one way,
twice the other, and the first again, so that what a stack becomes with the time comes to both: what a batch costs the
planner while clusters grow in number, how long the DDL of a new one takes, and how many rows Connect streams in a
second, for how much CPU time. The table is made anew for each.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import httpx2
import psycopg
import typer
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import sql
from rich.console import Console
from rich.table import Table

from bench.fleet.batches import CLUSTER, GENERAL, Fleet, median
from bench.processes import cpu_seconds
from devstack.harness.hosted import HostedStack, hosted
from services.cli.installation.connect import ConnectSettings, connect_client
from services.cli.installation.connector import DEFINITION, NAME
from services.common.garbage_collection import collect_rarely
from services.common.kafka import engine_topic, load_topics
from services.planner.database.session import DatabaseSession
from services.planner.engines.available import ENGINES

SIZES = [2, 30, 300]
INSTANCES, TENANTS_EACH, APPLICATIONS_EACH = 10, 20, 1_000
"""Of ring general, all in one cluster: the others are empty, as their rows would cost both ways the same."""
READY_SECONDS, ARRIVAL_SECONDS = 60.0, 120.0
TABLE = "engine_resources"
COLUMNS = "engine_instance_id,kind,namespace,name"
WHOLE, PARTS = r"public\.engine_resources", r"public\.engine_resources_.+"
"""What the connector reads."""

WHOLE_TABLE = "CREATE TABLE fresh (LIKE engine_resources INCLUDING ALL) WITH (fillfactor = 80)"
PARTED_TABLE = "CREATE TABLE fresh (LIKE engine_resources INCLUDING ALL) PARTITION BY LIST (engine_cluster)"
IN_ITS_PLACE = """
ALTER PUBLICATION gitops_compiled DROP TABLE engine_resources;
DROP TABLE engine_resources;
ALTER TABLE fresh RENAME TO engine_resources;
ALTER TABLE engine_resources ADD FOREIGN KEY (engine_instance_id, engine_cluster)
                             REFERENCES engine_instances (id, engine_cluster);
GRANT SELECT, INSERT, UPDATE, DELETE ON engine_resources TO gitops_planner;
GRANT SELECT ON engine_resources TO gitops_replication;
ALTER PUBLICATION gitops_compiled ADD TABLE engine_resources
"""
PARTITION = "CREATE TABLE {} PARTITION OF engine_resources FOR VALUES IN ({}) WITH (fillfactor = 80)"
ADD_CLUSTER = "INSERT INTO engine_clusters VALUES (%s, '', now(), 'active', now()) ON CONFLICT DO NOTHING"
TOUCH = "UPDATE engine_resources SET updated_at = now()"
FORGET = "TRUNCATE engine_clusters, engine_instances, engine_resources, deployments, resources, tenants CASCADE"
TIDY = "VACUUM ANALYZE"

console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)


@dataclass(frozen=True, slots=True)
class Layout:
    """One of the two ways."""

    name: str
    connector: Mapping[str, str]
    table: str
    """Makes it, empty."""
    partition: str = ""
    """Makes that of a cluster."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Medians, in milliseconds, with so many clusters."""

    change: float
    change_after_eviction: float
    thousand: float
    """New deployments of new tenants."""
    add: float
    """A cluster: its DDL, which has the table to itself."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A round: each row sent once."""

    rows_per_second: float
    cpu_us: float
    """Of Connect, for each row."""


def by_column() -> dict[str, str]:
    """The connector as it is."""
    found: dict[str, str] = json.loads(DEFINITION.read_text())
    return found


def by_partition() -> dict[str, str]:
    """The connector that streams each partition under its own name; its schemas are those of the table."""
    found = by_column()
    found["table.include.list"] = found["table.include.list"].replace(WHOLE, PARTS)
    owners = rf"{WHOLE}\.owner_.*"
    found["column.exclude.list"] = found["column.exclude.list"].replace(owners, rf"{PARTS}\.(owner_.*|engine_cluster)")
    found["message.key.columns"] = f"public.engine_resources_[^.]+:{COLUMNS}"
    found["predicates.engine.pattern"] = r"gitops\.public\.engine_resources_.+"
    del found["transforms.engine.route.by.field"]
    found["transforms.byEngineCluster.regex"] = r"gitops\.public\.engine_resources_(.+)"
    chain = found["transforms"].split(",")
    chain.remove("engineColumns")
    chain.insert(chain.index("keySchema"), "engineKeySchema")
    chain.insert(chain.index("valueSchema"), "engineValueSchema")
    for part, name in (("Key", "engineKeySchema"), ("Value", "engineValueSchema")):
        found[f"transforms.{name}.type"] = f"org.apache.kafka.connect.transforms.SetSchemaMetadata${part}"
        found[f"transforms.{name}.predicate"] = "routed"
        found[f"transforms.{name}.schema.name"] = f"gitops.public.engine_resources.{part}"
    found["transforms"] = ",".join(chain)
    return {name: text for name, text in found.items() if not name.startswith("transforms.engineColumns.")}


COLUMN = Layout("a column", by_column(), WHOLE_TABLE)
PARTITIONS = Layout("partitions", by_partition(), PARTED_TABLE, PARTITION)
IN_TURN = (COLUMN, PARTITIONS, PARTITIONS, COLUMN)


@dataclass(frozen=True, slots=True)
class Bench:
    """A stack, and how it is measured."""

    stack: HostedStack
    connect: httpx2.Client

    @property
    def owner_url(self) -> str:
        """Of the tables."""
        return self.stack.environment["DATABASE_OWNER_URL"]

    def execute(self, statement: str) -> None:
        """As the owner, each statement a transaction."""
        with psycopg.connect(self.owner_url, autocommit=True) as owner:
            for each in statement.split(";"):
                owner.execute(each)

    def add_cluster(self, name: str, layout: Layout) -> float:
        """As ``layout`` needs it; returns the milliseconds of its DDL."""
        with psycopg.connect(self.owner_url) as owner:
            owner.execute(ADD_CLUSTER, [name])
            owner.commit()
            began = time.perf_counter()
            if layout.partition:
                table = sql.Identifier(f"{TABLE}_{name}")
                owner.execute(sql.SQL(layout.partition).format(table, sql.Literal(name)))
                owner.execute(sql.SQL("GRANT SELECT ON {} TO gitops_replication").format(table))
            owner.commit()
            return (time.perf_counter() - began) * 1000

    def set_connector(self, layout: Layout) -> None:
        """Have Connect stream as ``layout`` says, and wait until it does."""
        known = dict(self.connect.get(f"/connectors/{NAME}/config").raise_for_status().json())
        wanted = dict(layout.connector) | {"poll.interval.ms": known["poll.interval.ms"]}
        self.connect.put(f"/connectors/{NAME}/config", json=wanted).raise_for_status()
        self.resume()

    def stop(self) -> None:
        """No row is read from the log until it is resumed."""
        self.connect.put(f"/connectors/{NAME}/stop").raise_for_status()
        self._await("STOPPED", tasks=0)

    def resume(self) -> None:
        """Wait until the task runs."""
        self.connect.put(f"/connectors/{NAME}/resume").raise_for_status()
        self._await("RUNNING", tasks=1)

    def _await(self, state: str, tasks: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            answer = self.connect.get(f"/connectors/{NAME}/status")
            status: dict[str, Any] = answer.json() if answer.is_success else {"connector": {}, "tasks": []}
            states = [status["connector"].get("state"), *(each["state"] for each in status["tasks"])]
            if states == [state] * (tasks + 1):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the connector is {status}")
            time.sleep(0.1)

    def stream(self, count: int) -> Stream:
        """Every row changes while the connector is stopped; how fast they come once it runs."""
        self.stop()
        self.execute(TOUCH)
        pid = {"connect": self.stack.pids()["connect"]}
        with closing(self._consumer()) as consumer:
            self.resume()
            arrivals = self._arrivals(consumer, count)
            began = next(arrivals)
            before = cpu_seconds(pid)["connect"]
            *_, ended = arrivals
            spent = cpu_seconds(pid)["connect"] - before
        return Stream((count - 1) / (ended - began), spent / (count - 1) * 1e6)

    def _consumer(self) -> Consumer:
        """At the end of the cluster's topic."""
        servers = self.stack.environment["KAFKA_BOOTSTRAP_SERVERS"]
        consumer = Consumer({"bootstrap.servers": servers, "group.id": str(uuid4()), "fetch.wait.max.ms": 5})
        topic = engine_topic(CLUSTER)
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ends = [TopicPartition(topic, number) for number in partitions]
        for each in ends:
            each.offset = consumer.get_watermark_offsets(each, timeout=10)[1]
        consumer.assign(ends)
        return consumer

    def _arrivals(self, consumer: Consumer, count: int) -> Iterator[float]:
        """When each of so many rows has come. Raises RuntimeError if they do not, or others do."""
        deadline = time.monotonic() + ARRIVAL_SECONDS
        for number in range(count):
            while (message := consumer.poll(0.5)) is None:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{number} of {count} rows have come in {ARRIVAL_SECONDS:g} s")
            if message.error() is not None or message.value() is None:
                raise RuntimeError(f"not a row: {message.error()}")
            yield time.monotonic()


def make_topic(servers: str) -> None:
    """Those of the cluster that has instances."""
    topics = [NewTopic(each.name, each.partitions, 1) for each in load_topics(engine_cluster=CLUSTER)]
    admin = AdminClient({"bootstrap.servers": servers})
    for outcome in admin.create_topics(topics).values():
        outcome.result(timeout=READY_SECONDS)


def measure(bench: Bench, layout: Layout, sizes: Sequence[int], times: int) -> tuple[dict[int, Costs], list[Stream]]:
    """The planner's batches with so many clusters, and then rounds of the stream."""
    bench.execute(FORGET)
    bench.stop()
    bench.execute(f"{layout.table};{IN_ITS_PLACE}")
    bench.add_cluster(CLUSTER, layout)
    bench.set_connector(layout)
    found, clusters = {}, 1
    with closing(DatabaseSession(bench.stack.environment["DATABASE_URL"], ENGINES)) as session:
        fleet = Fleet(session, TENANTS_EACH, APPLICATIONS_EACH)
        fleet.grow(INSTANCES)
        for size in sorted({*sizes}):
            added = [bench.add_cluster(f"other-{number}", layout) for number in range(clusters, size)]
            clusters = size
            bench.execute(TIDY)
            found[size] = Costs(
                median(fleet.change, times),
                median(fleet.change_after_eviction, times),
                median(lambda: filled(fleet), times),
                statistics.median(added),
            )
    with psycopg.connect(bench.owner_url) as owner:
        ((count,),) = owner.execute("SELECT count(*) FROM engine_resources").fetchall()
    return found, [bench.stream(count) for _ in range(times)]


def filled(fleet: Fleet) -> float:
    """As many new deployments as an instance has, of tenants that were not there; milliseconds."""
    place = fleet.applications // fleet.applications_each
    return fleet.fill(GENERAL, place, place + 1)


def table_of(found: Mapping[str, Sequence[Mapping[int, Costs]]]) -> Table:
    """What batches cost in each turn, for people."""
    columns = (
        "clusters",
        "deployment changed",
        "tenant not in memory",
        "1,000 new deployments",
        "DDL of a new cluster",
    )
    table = Table("rows are routed by", *columns, title="milliseconds, the median of each turn")
    for layout, turns in found.items():
        for size in turns[0]:
            figures = zip(*(astuple(turn[size]) for turn in turns), strict=True)
            table.add_row(layout, str(size), *(" ".join(f"{each:.1f}" for each in figure) for figure in figures))
    return table


def stream_table_of(found: Mapping[str, Sequence[Stream]]) -> Table:
    """What the stream costs, for people: median, least and most."""
    table = Table("rows are routed by", "rows a second", "Connect's CPU time for a row, µs", title="the stream")
    for layout, rounds in found.items():
        figures = [each.rows_per_second for each in rounds], [each.cpu_us for each in rounds]
        table.add_row(layout, *map(spread, figures))
    return table


def spread(figures: Sequence[float]) -> str:
    """Median, and between what they are."""
    return f"{statistics.median(figures):.0f} ({min(figures):.0f} to {max(figures):.0f})"


def main(
    size: Annotated[list[int], typer.Option(help="Clusters, several times.", min=2)] = SIZES,
    times: Annotated[int, typer.Option(help="Of each batch, and rounds of the stream, in each turn.", min=2)] = 5,
) -> None:
    """Measure both ways, and print two tables."""
    collect_rarely()
    costs, streams = defaultdict[str, list[dict[int, Costs]]](list), defaultdict[str, list[Stream]](list)
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", "--infra", output=Path(folder) / "stack.out") as stack:
            make_topic(stack.environment["KAFKA_BOOTSTRAP_SERVERS"])
            with connect_client(ConnectSettings(connect_url=stack.environment["CONNECT_URL"])) as client:
                for layout in IN_TURN:
                    console.print(f"rows are routed by {layout.name} …")
                    found, rounds = measure(Bench(stack, client), layout, size, times)
                    costs[layout.name].append(found)
                    streams[layout.name] += rounds
    console.print(table_of(costs))
    console.print(stream_table_of(streams))


if __name__ == "__main__":
    typer.run(main)
