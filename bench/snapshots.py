"""``python -m bench.snapshots``: what a change of a tenant costs the planner while its Snapshots grow in number.

On PostgreSQL, without Kafka and engines. The tenant has a promotion run that waits, and new Snapshots are promoted, so
both are looked at. Nothing may cost more with ten thousand Snapshots but what is about all of them: a complete list.
At the end a list lacks all of them, and a neighbour's changes are timed while they are removed, in parts and, to
compare, all at once.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import NAMESPACE_OID, uuid5

import orjson
import psycopg
import typer
from rich.console import Console
from rich.table import Table

from bench.workload import FIELD_MANAGER, seen_deployment
from devstack.harness.hosted import HostedStack, hosted
from services.common.api_resource import ApiResource
from services.common.messages import Command, ResourceChanged, ResourceGone, ResyncCompleted
from services.kinds.application.kind import APPLICATION
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.snapshot.images import image_entries
from services.kinds.snapshot.model import SNAPSHOT
from services.planner.database.periodic_queries import find_due_sweep
from services.planner.database.session import DatabaseSession
from services.planner.domain.events import Event, SweepDue
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.engines.available import ENGINES
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.periodic_tasks import QUARTER

WORKSPACE, NAMESPACE = "local", "snapshots"
SIZES = [0, 1_000, 10_000]
AT_ONCE = 500
"""Events of a batch."""
MOST_GROWTH, NOISE_MS = 2.0, 2.0
"""A batch takes no more than so many times as long with the most Snapshots, and a little."""
COMPONENTS = 20
"""Of which a Snapshot has images: ten thousand with the most, 250, are beyond a tenant's quota of bytes."""
LISTED = f"a list, for each {AT_ONCE} Snapshots"
"""What is about all of them."""
PARTS = [SweepGuard().at_once, sys.maxsize]
"""How many are removed at once."""
NEIGHBOUR, NEIGHBOUR_SECONDS = "neighbour", 0.05
"""Another tenant of the partition, and how often it changes a deployment."""
TIDY = "VACUUM ANALYZE"

console = Console(highlight=False)

Costs = Mapping[str, Mapping[int, float]]
"""Median milliseconds: by what is measured, and number of Snapshots."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What the removal of all Snapshots cost; milliseconds."""

    decided: float
    """The batch of the list's end."""
    parts: Sequence[float]
    waited: Sequence[float]
    """By each of the neighbour's changes, until it was committed."""
    seconds: float
    """Until none was left."""


@dataclass
class Crowd:
    """A tenant with Snapshots in a database, and the planner's session."""

    session: DatabaseSession
    policy: Policy = field(default_factory=lambda: Policy(guard=SweepGuard(share=1.0), promotes_snapshots=True))
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    size: int = 0
    version: int = 1
    epoch: int = 1

    def take(self, *events: Event) -> float:
        """Plan these and commit them; returns the milliseconds."""
        began = time.perf_counter()
        for part in split_at_markers(events):
            self.session.save_changes(plan_batch(part, self.session, self.policy, self.now), ())
        return (time.perf_counter() - began) * 1000

    def grow(self, size: int) -> None:
        """To so many Snapshots."""
        for first in range(self.size, size, AT_ONCE):
            self.take(*(self.seen(number) for number in range(first, min(size, first + AT_ONCE))))
        self.size = size

    def remove_all(self, at_once: int) -> Removal:
        """A list without any Snapshot: messages and parts take turns, as in the planner's loop."""
        self.policy = replace(self.policy, guard=replace(self.policy.guard, at_once=at_once))
        self.epoch += 1
        began = time.perf_counter()
        waited, parts, decided = list[float](), list[float](), self.take(self.marker())
        asked_at, swept_at = began, began
        while (left := self.due_sweep()) is not None or asked_at <= time.perf_counter():
            now = time.perf_counter()
            while asked_at <= now:
                self.change(NEIGHBOUR)
                waited.append((time.perf_counter() - asked_at) * 1000)
                asked_at += NEIGHBOUR_SECONDS
            if left is not None and now - swept_at >= QUARTER:
                swept_at = now
                parts.append(self.take(Event(left, left.part.partition, left.part.trace_id)))
            time.sleep(max(0.0, min(asked_at, swept_at + QUARTER) - time.perf_counter()))
        self.size = 0
        return Removal(decided, parts, waited, time.perf_counter() - began)

    def due_sweep(self) -> SweepDue | None:
        """The next part to be removed."""
        with self.session.connection() as connection:
            return find_due_sweep(connection, [0])

    def begin_promotion(self) -> None:
        """A run that waits for its Snapshot."""
        run = {"application": application_of(0), "snapshot": "to-come", "manualPromotion": {"targetEnvironment": "dev"}}
        self.take(self.shown(APPLICATION, application_of(0), 0, {}), self.shown(PROMOTION_RUN, "waiting", 0, run))

    def seen(self, number: int) -> Event:
        """A Snapshot as a watcher shows it."""
        components = [{"name": f"c-{each}", "containerImage": f"{each}:{number}"} for each in range(COMPONENTS)]
        images = image_entries({"components": components})
        return self.shown(SNAPSHOT, name_of(number), number, {"application": application_of(number), "images": images})

    def shown(self, kind: ApiResource, name: str, number: int, spec: Mapping[str, Any]) -> Event:
        """A resource, which was made ``number`` milliseconds after the others."""
        created_at = int(self.now.timestamp() * 1_000) + number
        event = ResourceChanged(
            kind.api_version, kind.kind, name, uid_of(name), str(number + 1), 1, self.epoch,
            deleting=False, finalizers=(), actor=FIELD_MANAGER, created_at=created_at,
            spec=orjson.dumps(spec).decode(),
        )  # fmt: skip
        return self.told(event)

    def told(self, event: ResourceChanged | ResourceGone) -> Event:
        """By the watcher, of this tenant."""
        namespace_uid = str(uuid5(NAMESPACE_OID, NAMESPACE))
        return Event(Command(WORKSPACE, WORKSPACE, NAMESPACE, self.now, event, namespace_uid, 1_000), 0, "")

    def change(self, namespace: str = NAMESPACE) -> float:
        """One deployment, of the tenant in memory."""
        self.version += 1
        name = (WORKSPACE, namespace)
        changed = seen_deployment(
            name, "app", self.now, resource_version=self.version, generation=self.version, epoch=self.epoch
        )
        return self.take(Event(changed, 0, ""))

    def change_after_eviction(self) -> float:
        """The same, and the tenant is read first."""
        self.session.tenants.forget_tenants()
        return self.change()

    def come_and_go(self) -> float:
        """A new Snapshot, which is deleted again."""
        number = 1_000_000 + self.version
        self.version += 1
        gone = ResourceGone(SNAPSHOT.kind, name_of(number), uid_of(name_of(number)), str(number + 2))
        return self.take(self.seen(number)) + self.take(self.told(gone))

    def list_anew(self) -> float:
        """A complete list of all Snapshots, which have not changed: milliseconds for a batch of it."""
        self.epoch += 1
        batches = [range(first, min(self.size, first + AT_ONCE)) for first in range(0, self.size, AT_ONCE)]
        spent = [self.take(*(self.seen(number) for number in numbers)) for numbers in batches]
        self.take(self.marker())
        return statistics.median(spent) if spent else 0.0

    def marker(self) -> Event:
        """The end of a list."""
        return Event(Command(WORKSPACE, "", "", self.now, ResyncCompleted(SNAPSHOT.kind, self.epoch)), 0, "")

    @property
    def batches(self) -> Mapping[str, Callable[[], float]]:
        """What is about one change, and so may not grow."""
        return {
            "deployment changed": self.change,
            "deployment changed, tenant not in memory": self.change_after_eviction,
            "Snapshot new and deleted": self.come_and_go,
        }


def name_of(number: int) -> str:
    """Of a Snapshot."""
    return f"snapshot-{number}"


def application_of(number: int) -> str:
    """That a Snapshot is of."""
    return f"application-{number % 10}"


def uid_of(name: str) -> str:
    """Of a resource."""
    return str(uuid5(NAMESPACE_OID, name))


def measure(
    stack: HostedStack, sizes: Sequence[int], times: int, parts: Sequence[int]
) -> tuple[Costs, Mapping[int, Removal]]:
    """Each batch with so many Snapshots; and that all of the most go, so many at once."""
    stack.kill("connect")  # nothing is streamed
    found: dict[str, dict[int, float]] = {}
    removals: dict[int, Removal] = {}
    with closing(DatabaseSession(stack.environment["DATABASE_URL"], ENGINES)) as session:
        crowd = Crowd(session)
        crowd.begin_promotion()
        for size in sorted(sizes):
            crowd.grow(size)
            tidy(stack)
            for name, batch in crowd.batches.items():
                batch()
                found.setdefault(name, {})[size] = statistics.median(batch() for _ in range(times))
            found.setdefault(LISTED, {})[size] = crowd.list_anew()
        for at_once in parts:
            crowd.grow(max(sizes))
            crowd.change(NEIGHBOUR)
            tidy(stack)
            removals[at_once] = crowd.remove_all(at_once)
    return found, removals


def tidy(stack: HostedStack) -> None:
    """As after autovacuum."""
    with psycopg.connect(stack.environment["DATABASE_OWNER_URL"], autocommit=True) as owner:
        owner.execute(TIDY)


def find_growing(found: Costs) -> list[str]:
    """Batches that take longer with more Snapshots, though they are not about all of them."""
    growing = []
    for name, costs in found.items():
        fewest, most = min(costs), max(costs)
        if name != LISTED and costs[most] > MOST_GROWTH * costs[fewest] + NOISE_MS:
            growing.append(f"{name}: {costs[fewest]:.1f} ms with {fewest}, {costs[most]:.1f} ms with {most}")
    return growing


def removal_table(size: int, removals: Mapping[int, Removal]) -> Table:
    """What the removal of so many cost."""
    columns = ("removed", "list's end", "longest part", "neighbour p50", "p99", "all gone after")
    table = Table(*columns, title=f"a list lacks {size} Snapshots; milliseconds, seconds")
    for at_once, spent in removals.items():
        name = f"{at_once} at once" if at_once < size else "all at once"
        waited = sorted(spent.waited)
        figures = (
            spent.decided,
            max(spent.parts, default=0.0),
            statistics.median(waited),
            waited[len(waited) * 99 // 100],
        )
        table.add_row(name, *(f"{figure:.0f}" for figure in figures), f"{spent.seconds:.1f}")
    return table


def main(
    sizes: Annotated[list[int], typer.Option("--size", help="Snapshots of the tenant.")] = SIZES,
    times: Annotated[int, typer.Option(help="How often each batch is measured.")] = 50,
    parts: Annotated[list[int], typer.Option("--part", help="How many are removed at once.")] = PARTS,
) -> None:
    """Print what batches cost; exits with 1 if one costs more with more Snapshots."""
    with tempfile.TemporaryDirectory(prefix="gitops-bench-") as folder:
        console.print("starting a stack …")
        with hosted(Path(folder) / "stack", "--infra", output=Path(folder) / "stack.out") as stack:
            found, removals = measure(stack, sizes, times, parts)
    table = Table("milliseconds of a batch", *(f"{size} Snapshots" for size in sorted(sizes)))
    for name, costs in found.items():
        table.add_row(name, *(f"{costs[size]:.1f}" if size in costs else "" for size in sorted(sizes)))
    console.print(table)
    console.print(removal_table(max(sizes), removals))
    if growing := find_growing(found):
        console.print("\n".join(growing))
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
