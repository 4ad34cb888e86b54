"""The topic of pending claims, read from its beginning: it is compacted, so that is what there is to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from services.common.avro import SchemaRegistry, decode_record
from services.common.kafka import PROVISIONING, ConsumedMessage, PartitionReader
from services.common.messages import PendingClaim
from services.common.settings import KafkaSettings

GROUP = "gitops-target-provisioner"
"""Its name at the brokers: a client asks for its group even if it joins none."""


class ClaimKey(NamedTuple):
    """What a row is about."""

    workspace: str
    namespace: str
    name: str
    uid: str


class Topic:
    """Reads as a member of no group, and commits nothing: it needs all of it each time."""

    def __init__(self, reader: PartitionReader, registry: SchemaRegistry) -> None:
        """From the beginning."""
        self._reader, self._registry = reader, registry
        self._ends = reader.end_offsets(reader.partitions_of(PROVISIONING))
        reader.assign_partitions(dict.fromkeys(self._ends, 0))

    def read_all(self) -> dict[ClaimKey, PendingClaim | None]:
        """What it held when it was opened, at least: the newest row of each claim; None: it is gone."""
        return dict(map(self._row, self._reader.read_on(self._ends)))

    def read_news(self) -> dict[ClaimKey, PendingClaim | None]:
        """Likewise what has come since."""
        return dict(map(self._row, self._reader.read_batch(1000, 0)))

    def _row(self, message: ConsumedMessage) -> tuple[ClaimKey, PendingClaim | None]:
        key = ClaimKey(**decode_record(self._registry, message.key))
        row = PendingClaim.from_record(decode_record(self._registry, message.value)) if message.value else None
        return key, row


@contextmanager
def open_topic(settings: KafkaSettings) -> Iterator[Topic]:
    """The topic, until the block ends."""
    with PartitionReader(settings, GROUP) as reader:
        yield Topic(reader, SchemaRegistry(settings))
