"""``python -m bench.rebuild``: how fast a lost database is built from the log, and what it costs to list all anew.

Also to replay the log beside the planner, and to compile everything anew. The log is written here, as a watcher writes
it, under a workspace's name; engines stand still.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console

from bench.commands import gitopsctl
from bench.processes import cpu_seconds
from bench.workload import seen_deployment
from devstack.harness.hosted import HostedStack, hosted
from services.cli.rebuild.streamed_topics import StreamedTopics
from services.cli.replay.complete_lists import listed_kinds
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import COMMANDS, PartitionReader, Publisher, count_partitions, tenant_key
from services.common.messages import Command, ResyncCompleted
from services.common.telemetry import TRACEPARENT, new_traceparent
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT

WORKSPACE = "local"
LOOK_EVERY_SECONDS = 0.2
MEASURED = ("planner", "postgres")
OFFSETS = "SELECT coalesce(sum(next_offset), 0) FROM consumer_offsets WHERE topic = %s"

console = Console(highlight=False)


def listed(deployments: int, tenants: int, epoch: int) -> Iterator[Command]:
    """A complete list, less its markers."""
    now = datetime.now(UTC)
    for number in range(deployments):
        tenant = (WORKSPACE, f"bench-{number % tenants:05d}")
        yield seen_deployment(tenant, f"app-{number}", now, resource_version=number + 1, epoch=epoch)


def write_list(stack: HostedStack, deployments: int, tenants: int, epoch: int) -> None:
    """As a watcher does: all of it, and then the markers of every kind in every partition."""
    codec = AvroCodec(SchemaRegistry(stack.log), Command, value_subject(COMMANDS))
    publisher, headers = Publisher(stack.log, "bench"), {TRACEPARENT: new_traceparent()}
    sent = [
        publisher.send_message(
            COMMANDS, tenant_key(command.workspace, command.namespace), codec.encode_message(command), headers
        )
        for command in listed(deployments, tenants, epoch)
    ]
    for outcome in sent:
        outcome.result()
    for kind in listed_kinds():
        marker = codec.encode_message(Command(WORKSPACE, "", "", datetime.now(UTC), ResyncCompleted(kind, epoch)))
        for partition in range(count_partitions(stack.log, [COMMANDS])[COMMANDS]):
            publisher.send_message(COMMANDS, None, marker, headers, partition=partition).result()
    publisher.close()


def until_planned(stack: HostedStack) -> None:
    """Return when the planner has come to the end of the log."""
    with PartitionReader(stack.log, "bench") as reader:
        total = sum(reader.end_offsets(reader.partitions_of(COMMANDS)).values())
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"], autocommit=True) as owner:
        while (owner.execute(OFFSETS, [COMMANDS]).fetchone() or (0,))[0] < total:
            time.sleep(LOOK_EVERY_SECONDS)


def measure(stack: HostedStack, deployments: int, tenants: int) -> None:
    """Each step of a rebuild, and then a list of what has not changed."""
    gitopsctl(stack, "connector", "stop")
    write_list(stack, deployments, tenants, time.time_ns() // 1_000_000)
    console.print(gitopsctl(stack, "rebuild", "start").splitlines()[0])
    began = time.monotonic()
    stack.start("planner")
    write_list(stack, deployments, tenants, time.time_ns() // 1_000_000)  # of the watchers, which are started with it
    console.print(gitopsctl(stack, "rebuild", "follow"))
    replayed = time.monotonic() - began
    gitopsctl(stack, "connector", "apply")
    topics = StreamedTopics(stack.log, SchemaRegistry(stack.log))
    while len(topics.engine_digests()) < deployments + tenants:  # a project each
        time.sleep(LOOK_EVERY_SECONDS)
    streamed = time.monotonic() - began
    console.print(
        f"{deployments} of {tenants} tenants: replayed, and listed once more, after {replayed:.0f} s, "
        f"streamed after {streamed:.0f} s"
    )
    pids = {name: pid for name, pid in stack.pids().items() if name in MEASURED}
    before, began = cpu_seconds(pids), time.monotonic()
    write_list(stack, deployments, tenants, time.time_ns() // 1_000_000)
    until_planned(stack)
    used = {name: seconds - before[name] for name, seconds in cpu_seconds(pids).items()}
    console.print(f"listed anew, unchanged: {time.monotonic() - began:.0f} s; CPU {used}")
    began = time.monotonic()
    console.print(gitopsctl(stack, "replay", "at", "PT0S").rstrip())
    console.print(f"replayed into tables of its own, and compared: {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    gitopsctl(stack, "look-again", "--kind", GITOPS_DEPLOYMENT.kind, "--rate", "10000")
    until_planned(stack)
    console.print(f"compiled anew: {time.monotonic() - began:.0f} s")


def main(
    deployments: Annotated[int, typer.Option(help="GitOpsDeployments in the log.")] = 25_000,
    tenants: Annotated[int, typer.Option(help="Tenants they belong to.")] = 10_000,
) -> None:
    """Start a stack of its own, without watcher and agents, fill its log, and measure."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", "--infra", output=Path(folder) / "stack.out") as stack:
            measure(stack, deployments, tenants)


if __name__ == "__main__":
    typer.run(main)
