"""A watcher under test, and the two ends it stands between: the commands it sends, the rows it is sent."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from services.common.avro import AvroCodec, SchemaRegistry, frame
from services.common.kafka import COMMANDS, DEAD_LETTERS, Publisher
from services.common.kubernetes import SECRET, ApiResource, KubeClient, Manifest, connect
from services.common.messages import Command, DeadLetter, WorkspaceObject, WorkspaceResource
from services.common.sealing import generate_key, write_keys
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.watcher.bootstrap import Topics, WatcherParts, await_brokers, build
from services.watcher.followed_kinds import WATCHED_WHOLE, FollowedKind
from services.watcher.rows.row_types import OBJECTS, STATUSES, RowType
from services.watcher.settings import WatcherSettings
from services.watcher.watcher import Watcher

DEADLINE_SECONDS = 60
USER = "a-user"
BATCH = 500
"""Messages that are read at once, at most."""
SHOWN = 20
"""Commands that a failure tells, at most."""

ROW_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "namespace": "gitops.public.workspace_resources",
    "fields": [
        {"name": "workspace", "type": "string"},
        {"name": "namespace", "type": "string"},
        {"name": "kind", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "uid", "type": "string"},
        {"name": "generation", "type": "long"},
        {"name": "status", "type": "string"},
        {"name": "release_finalizer", "type": "boolean"},
        {"name": "digest", "type": "string"},
        {"name": "trace_id", "type": "string"},
        {"name": "seen_at", "type": "string"},
        {"name": "updated_at", "type": "string"},
        {"name": "__deleted", "type": ["null", "string"], "default": None},
    ],
}

OBJECT_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Value",
    "namespace": "gitops.public.workspace_objects",
    "fields": [
        *(
            {"name": name, "type": "string"}
            for name in (
                *("workspace", "namespace", "kind", "name", "desired", "uid"),
                *("owner_api_version", "owner_kind", "owner_name", "owner_uid", "manifest", "digest"),
            )
        ),
        {"name": "revision", "type": "long"},
        {"name": "trace_id", "type": "string"},
        {"name": "seen_at", "type": "string"},
        {"name": "updated_at", "type": "string"},
        {"name": "__deleted", "type": ["null", "string"], "default": None},
    ],
}


@dataclass(frozen=True)
class Sent:
    """A command as it lies in the log."""

    partition: int
    key: bytes | None
    headers: dict[str, bytes]
    command: Command

    @property
    def event(self) -> Any:
        return self.command.event


class CommandReader:
    """Everything in the commands topic."""

    def __init__(self, bootstrap: str, codec: AvroCodec[Command], topic: str, partitions: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._codec = codec
        self.sent: list[Sent] = []

    async def until(self, what: str, condition: Callable[[list[Sent]], Any]) -> Any:
        """Read on until ``condition`` holds of all that was sent; returns what it returned."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (answer := condition(self.sent)):
            newest = [item.event for item in self.sent[-SHOWN:]]
            assert time.monotonic() < deadline, f"{what}; {len(self.sent)} seen, the newest: {newest}"
            await asyncio.to_thread(self._read)
        return answer

    def _read(self) -> None:
        """All that is there: whoever lists all resources every few seconds sends hundreds each time."""
        first = self._consumer.poll(0.2)
        for message in () if first is None else (first, *self._consumer.consume(BATCH, timeout=0)):
            if message.error() is None:
                headers = dict(message.headers() or ())
                command = self._codec.decode_message(message.value())  # type: ignore[arg-type]
                self.sent.append(Sent(message.partition() or 0, message.key(), headers, command))  # type: ignore[arg-type]

    def in_bytes(self) -> bytes:
        """Everything in the topic, as it lies there."""
        content = b""
        for partition in self._consumer.assignment():
            first, end = self._consumer.get_watermark_offsets(partition, timeout=10)
            self._consumer.seek(TopicPartition(partition.topic, partition.partition, first))
            for message in self._consumer.consume(end - first, timeout=10) if end > first else ():
                content += (message.key() or b"") + (message.value() or b"")  # type: ignore[operator]
        return content

    def close(self) -> None:
        self._consumer.close()


class RowWriter:
    """Plays Debezium."""

    def __init__(self, bootstrap: str, registry_url: str, topic: str, schema: dict[str, Any]) -> None:
        self._publisher, self._topic = Publisher(bootstrap, "rows-of-a-test"), topic
        self._columns = [item["name"] for item in schema["fields"]]
        self._schema = fastavro.parse_schema(schema)
        client = SchemaRegistryClient({"url": registry_url, "timeout": 10})
        subject = f"{schema['namespace']}.{schema['name']}"
        self._schema_id = client.register_schema(subject, Schema(json.dumps(schema), "AVRO"))

    def write(self, row: WorkspaceResource | WorkspaceObject) -> int:
        """Append a row; returns its offset."""
        record = asdict(row) | {
            "seen_at": row.seen_at.isoformat(),
            "updated_at": row.seen_at.isoformat(),
            "__deleted": "true" if row.deleted else "false",
        }
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, {name: record[name] for name in self._columns})
        return self.append(f"{row.namespace}/{row.name}".encode(), frame(self._schema_id, buffer.getvalue()))

    def append(self, key: bytes, value: bytes | None) -> int:
        """Append anything; None is a tombstone."""
        return self._publisher.send_message(self._topic, key, value, {}, partition=0).result(DEADLINE_SECONDS)  # type: ignore[arg-type]

    def close(self) -> None:
        self._publisher.close()


@dataclass
class Rig:
    """What a watcher under test is connected to."""

    settings: WatcherSettings
    topics: Topics
    commands: CommandReader
    rows: RowWriter
    """Of statuses."""
    objects: RowWriter
    """Of child objects."""
    dead_letters: Callable[[], list[DeadLetter]]
    """Of statuses."""
    dead_objects: Callable[[], list[DeadLetter]]
    """Of child objects."""

    @asynccontextmanager
    async def watcher(self, kinds: Sequence[FollowedKind] = WATCHED_WHOLE, **changed: Any) -> AsyncIterator[Watcher]:
        """A watcher that is ready; it ends in order with the block."""
        settings = self.settings.model_copy(update=changed)
        messaging = await asyncio.to_thread(await_brokers, settings, self.topics)
        stop = asyncio.Event()
        async with await connect(settings.kubeconfig) as kube:
            watcher = build(WatcherParts(settings, messaging, self.topics, kube), kinds)
            running = asyncio.create_task(watcher.run(stop))
            try:
                await until(lambda: running.done() or not watcher.unready_because(), watcher.unready_because)
                yield watcher
            finally:
                stop.set()
                await running

    async def until_committed(self, next_offset: int) -> None:
        """Wait until the watcher's group of statuses has committed this offset."""
        await self._until_committed(STATUSES, self.topics.workspace, next_offset)

    async def until_objects_committed(self, next_offset: int) -> None:
        """Likewise that of child objects."""
        await self._until_committed(OBJECTS, self.topics.objects, next_offset)

    def objects_committed(self) -> int:
        """What that group has committed, negative if nothing."""
        group = OBJECTS.consumer_group(self.settings.workspace)
        asking = Consumer({"bootstrap.servers": self.settings.kafka_bootstrap_servers, "group.id": group})
        try:
            return self._committed(asking, self.topics.objects)
        finally:
            asking.close()

    async def _until_committed(self, rows: RowType[Any], topic: str, next_offset: int) -> None:
        group = rows.consumer_group(self.settings.workspace)
        asking = Consumer({"bootstrap.servers": self.settings.kafka_bootstrap_servers, "group.id": group})
        try:
            await until(
                lambda: self._committed(asking, topic) >= next_offset, lambda: str(self._committed(asking, topic))
            )
        finally:
            asking.close()

    def committed(self) -> int:
        """The group's committed offset, negative if there is none."""
        group = STATUSES.consumer_group(self.settings.workspace)
        asking = Consumer({"bootstrap.servers": self.settings.kafka_bootstrap_servers, "group.id": group})
        try:
            return self._committed(asking, self.topics.workspace)
        finally:
            asking.close()

    def _committed(self, asking: Consumer, topic: str) -> int:
        return asking.committed([TopicPartition(topic, 0)], timeout=10)[0].offset


@dataclass(frozen=True)
class KeyFiles:
    """What seals, and what opens."""

    folder: Path

    @property
    def public(self) -> Path:
        return self.folder / "public.json"

    @property
    def private(self) -> Path:
        return self.folder / "private.json"

    def renew(self) -> None:
        """Another key takes the place of all."""
        key = generate_key()
        write_keys(self.private, {str(key.kid): key}, private=True)
        write_keys(self.public, {str(key.kid): key}, private=False)


def open_rig(
    bootstrap: str,
    registry_url: str,
    kubeconfig: Path,
    workspace: str,
    topics: Topics,
    *,
    partitions: int,
    keys: KeyFiles,
) -> Rig:
    """Connect both ends."""
    settings = WatcherSettings(
        kafka_bootstrap_servers=bootstrap,
        schema_registry_url=registry_url,
        kubeconfig=kubeconfig,
        workspace=workspace,
        sealing_public_keys=keys.public,
    )
    registry = SchemaRegistry(registry_url)
    commands = CommandReader(bootstrap, AvroCodec(registry, Command, f"{COMMANDS}-value"), topics.commands, partitions)
    letters = AvroCodec(registry, DeadLetter, f"{DEAD_LETTERS}-value")
    return Rig(
        settings,
        topics,
        commands,
        RowWriter(bootstrap, registry_url, topics.workspace, ROW_SCHEMA),
        RowWriter(bootstrap, registry_url, topics.objects, OBJECT_SCHEMA),
        lambda: _dead_letters(bootstrap, letters, topics.workspace),
        lambda: _dead_letters(bootstrap, letters, topics.objects),
    )


def _dead_letters(bootstrap: str, codec: AvroCodec[DeadLetter], topic: str) -> list[DeadLetter]:
    """Dead letters of messages that came from ``topic``."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        partition = TopicPartition(DEAD_LETTERS, 0, 0)
        end = consumer.get_watermark_offsets(partition, timeout=10)[1]
        consumer.assign([partition])
        messages = consumer.consume(end, timeout=10) if end else []
        values = [message.value() for message in messages]
        letters = [codec.decode_message(value) for value in values if value is not None]  # others say what was done
        return [letter for letter in letters if letter.topic == topic]
    finally:
        consumer.close()


async def until(condition: Callable[[], Any], describe: Callable[[], str] = lambda: "") -> Any:
    """Wait until ``condition`` holds; returns what it returned."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (answer := condition()):
        assert time.monotonic() < deadline, describe()
        await asyncio.sleep(0.01)
    return answer


@dataclass(frozen=True)
class Tenant:
    """A namespace and what its users do in it."""

    kube: KubeClient
    namespace: str

    async def create(self, name: str, *, finalizers: tuple[str, ...] = (), path: str = "apps") -> Manifest:
        manifest = {
            "apiVersion": GITOPS_DEPLOYMENT.api_version,
            "kind": GITOPS_DEPLOYMENT.kind,
            "metadata": {"name": name, "namespace": self.namespace, "finalizers": list(finalizers)},
            "spec": {"type": "automated", "source": {"repoURL": "https://example.com/a.git", "path": path}},
        }
        return await self.kube.create_object(GITOPS_DEPLOYMENT, manifest, field_manager=USER)

    async def create_any(self, kind: ApiResource, name: str, **content: Any) -> Manifest:
        meta = {"name": name, "namespace": self.namespace}
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta} | content
        return await self.kube.create_object(kind, manifest, field_manager=USER)

    async def create_secret(self, name: str, type_: str, **content: str) -> Manifest:
        return await self.create_any(SECRET, name, type=type_, stringData=content)

    async def patch(self, name: str, patch: Manifest, subresource: str | None = None) -> Manifest:
        return await self.kube.patch_object(
            GITOPS_DEPLOYMENT, self.namespace, name, patch, field_manager=USER, subresource=subresource
        )

    async def delete(self, name: str) -> None:
        await self.kube.delete_object(GITOPS_DEPLOYMENT, self.namespace, name)

    async def get(self, name: str) -> Manifest:
        return await self.kube.get_object(GITOPS_DEPLOYMENT, self.namespace, name)

    async def until_status(self, name: str, expected: Manifest) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (status := (await self.get(name)).get("status")) != expected:
            assert time.monotonic() < deadline, status
            await asyncio.sleep(0.02)
