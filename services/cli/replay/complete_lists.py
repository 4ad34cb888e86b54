"""Which complete lists the log of commands holds: what a database could be built from that is lost now.

A list is whole if the log has its end, a resync marker, and was not cut off behind the list's beginning: retention
removes messages from the front only. Everything that a list shows is written after the list's epoch, which is a time.
So the list is whole if the partition's oldest message is older than the epoch, or if nothing was ever removed. Memory
has at most one such list for each partition, workspace and kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from services.cli.sending import CLIENT
from services.common.avro import AvroCodec
from services.common.errors import Poison, Retry
from services.common.kafka import (
    WORKSPACE,
    Brokers,
    ConsumedMessage,
    PartitionReader,
    TopicPartition,
    client_properties,
)
from services.common.messages import Command, ResyncCompleted
from services.kinds.registry import REGISTRY

CLOCKS_DIFFER_SECONDS = 60.0
"""By how much at most, as a rule: those of watchers, which number epochs and date messages."""
REQUEST_SECONDS = 10.0


class Scope(NamedTuple):
    """What a resync marker is about."""

    workspace: str
    kind: str
    partition: int


class CompleteList(NamedTuple):
    """A list of which everything was sent."""

    epoch: int
    """When it began: milliseconds since 1970."""
    end: int
    """Offset of its marker."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What the log lacks."""

    scope: Scope
    reason: str

    def __str__(self) -> str:
        return f"{self.scope.workspace}: {self.scope.kind}, partition {self.scope.partition}: {self.reason}"


@dataclass(slots=True)
class LoggedLists:
    """What was found in the log so far."""

    first_offsets: Mapping[int, int]
    """The oldest that each partition still has."""
    newest: dict[Scope, CompleteList] = field(default_factory=dict)
    oldest_times: dict[int, float] = field(default_factory=dict)
    """Of each partition's oldest message: seconds since 1970."""

    def add_message(self, message: ConsumedMessage, decode: Callable[[bytes | None], Command]) -> None:
        """Take note of the next message of a partition. Only markers, which have no key, are decoded.

        An approval is the marker of an older list once more: it proves nothing.
        """
        self.oldest_times.setdefault(message.partition, message.timestamp)
        if message.key:
            return
        try:
            command = decode(message.value)
        except Poison:
            return  # no watcher's
        if isinstance(command.event, ResyncCompleted) and not command.event.approved:
            scope = Scope(command.source, command.event.kind, message.partition)
            found = CompleteList(command.event.epoch, message.offset)
            self.newest[scope] = max(found, self.newest.get(scope, found))

    def find_gaps(self, workspaces: Iterable[str], kinds: Iterable[str]) -> list[Gap]:
        """The lists that are missing, of every workspace, kind and partition."""
        scopes = self.scopes(workspaces, kinds)
        return [Gap(scope, reason) for scope in scopes if (reason := self._lack(scope))]

    def scopes(self, workspaces: Iterable[str], kinds: Iterable[str]) -> list[Scope]:
        """All scopes: one for every workspace, kind and partition."""
        kinds = tuple(kinds)
        return [Scope(name, kind, each) for name in workspaces for kind in kinds for each in self.first_offsets]

    def _lack(self, scope: Scope) -> str:
        newest, oldest = self.newest.get(scope), self.oldest_times.get(scope.partition, 0.0)
        if newest is None:
            return "the end of no list is in the log"
        if self.first_offsets[scope.partition] and newest.epoch / 1000 - CLOCKS_DIFFER_SECONDS < oldest:
            return "the log no longer has the beginning of its newest list"
        return ""


def read_lists(
    brokers: Brokers,
    topic: str,
    codec: AvroCodec[Command],
    tell: Callable[[int, int], None] = lambda *_: None,
    since: Mapping[TopicPartition, int] | None = None,
    until: Mapping[TopicPartition, int] | None = None,
) -> LoggedLists:
    """Read the log ``since`` these offsets, or from the beginning; ``until`` those, of these partitions alone.

    Without ``until`` all partitions are read up to their present ends.
    ``tell`` is called with how many messages were read, and of how many. Raises Retry if the brokers do not answer.
    """
    with PartitionReader(brokers, CLIENT) as reader:
        ends = until if until is not None else reader.end_offsets(reader.partitions_of(topic))
        sources, first = sorted(ends), reader.first_offsets(ends)
        lists = LoggedLists({source.partition: first[source] for source in sources})
        starts = {source: max(first[source], (since or {}).get(source, 0)) for source in sources}
        total = sum(max(0, ends[source] - starts[source]) for source in sources)
        for number, message in enumerate(reader.read_messages(ends, starts), 1):
            lists.add_message(message, codec.decode_message)
            tell(number, total)
    return lists


def listed_kinds() -> list[str]:
    """Names of all kinds that watchers list."""
    return [kind.name for kind in REGISTRY.kinds]


def added_workspaces(brokers: Brokers) -> list[str]:
    """Workspaces that have a topic, sorted. Raises Retry if the brokers do not answer."""
    try:
        topics = AdminClient(client_properties(brokers) | {"log_level": 0}).list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        raise Retry(str(error.args[0])) from error
    prefix = f"{WORKSPACE}."
    return sorted(name.removeprefix(prefix) for name in topics if name.startswith(prefix))
