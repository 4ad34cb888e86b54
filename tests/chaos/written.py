"""What the product writes of a tenant while a test runs: Applications, statuses, and commands in their log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from aiokafka.record.memory_records import MemoryRecords

from chaos.sync_starts import SyncStarts
from services.common.kafka import COMMANDS
from services.common.kubernetes import APPLICATION, ApiResource, Changed, KubeClient, Manifest, reflect
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.sync_run.model import SYNC_RUN
from tests.e2e.tenant import application_name

RECORDED_SECONDS = 120


class Written:
    """Every spec, status and start of a sync, as they changed."""

    def __init__(self) -> None:
        self.specs: dict[str, list[tuple[str, str]]] = {}
        """Uid and path of each Application, by its name."""
        self.statuses: dict[str, list[str]] = {}
        """By uid, of a deployment the path that its status names, of a run the phase that it shows."""
        self.starts = SyncStarts()
        self._noted = asyncio.Event()

    def note(self, item: Manifest) -> None:
        """One version of an object."""
        self._noted.set()
        meta, status = item["metadata"], item.get("status") or {}
        if item["kind"] == APPLICATION.kind:
            self.specs.setdefault(meta["name"], []).append((meta["uid"], item["spec"]["source"]["path"]))
            self.starts.note(item)
            return
        deployed = (status.get("reconciledState") or {}).get("source") or {}
        if shown := deployed.get("path") or (status.get("operation") or {}).get("phase"):
            self.statuses.setdefault(meta["uid"], []).append(shown)

    def paths(self, created: Manifest) -> list[str]:
        """Of a deployment's Application, in their order; one that comes twice was written by two."""
        return _turns([path for _, path in self.specs[application_name(created)]])

    def shown(self, created: Manifest) -> list[str]:
        """By the status of a deployment or run, in their order; one that comes twice was written too late."""
        return _turns(self.statuses.get(created["metadata"]["uid"], []))

    async def until_shown(self, created: Manifest, value: str) -> None:
        """Wait until the status of a deployment or run, and what came before it, was recorded."""
        async with asyncio.timeout(RECORDED_SECONDS):
            while self.shown(created)[-1:] != [value]:
                self._noted.clear()
                await self._noted.wait()

    def uids(self, created: Manifest) -> set[str]:
        """Of all Applications that a deployment had."""
        return {uid for uid, _ in self.specs[application_name(created)]}


def _turns(values: Sequence[str]) -> list[str]:
    return [value for value, _ in groupby(values)]


def is_in_order(found: Sequence[str], expected: Sequence[str]) -> bool:
    """Whether these are some of ``expected``, none before one that comes earlier there, up to the last."""
    places = [expected.index(each) if each in expected else -1 for each in found]
    return bool(found) and found[-1] == expected[-1] and -1 not in places and places == sorted(set(places))


@asynccontextmanager
async def recorded(kube: KubeClient, engine: str, home: str) -> AsyncIterator[Written]:
    """What is written to the Applications of an engine namespace and to a tenant's resources while the block runs."""
    written = Written()

    async def follow(resource: ApiResource, namespace: str) -> None:
        async for event in reflect(kube, resource, namespace):
            if isinstance(event, Changed):
                written.note(event.object)

    following = [
        asyncio.create_task(follow(*each))
        for each in ((APPLICATION, engine), (GITOPS_DEPLOYMENT, home), (SYNC_RUN, home))
    ]
    try:
        yield written
    finally:
        for task in following:
            task.cancel()
        for task in following:
            with suppress(asyncio.CancelledError):
                await task


class Sent(NamedTuple):
    """A batch of commands as the broker keeps it."""

    timestamp: int
    """Milliseconds since 1970, of its last command."""
    place: tuple[str, int]
    """Partition and offset."""
    sender: int
    """Id that the broker has given to the producer: each process has another."""


def commands_sent(kafka_data: Path) -> list[Sent]:
    """All that is in the log of commands. Consumers do not learn who sent what, so its files are read."""
    return sorted(each for file in kafka_data.glob(f"{COMMANDS}-[0-9]*/*.log") for each in _batches(file))


def _batches(file: Path) -> Iterator[Sent]:
    records = MemoryRecords(file.read_bytes())
    while records.has_next():
        batch = records.next_batch()
        yield Sent(batch.max_timestamp, (file.parent.name, batch.base_offset), batch.producer_id)
