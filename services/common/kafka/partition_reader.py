"""Reads partitions from given offsets on, as a member of no group: what a topic holds, from its beginning to its end.

:class:`~services.common.kafka.consumer.Consumer` does the same as a member of a group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, Message
from confluent_kafka import Consumer as KafkaClient
from confluent_kafka import TopicPartition as ClientPartition

from services.common.errors import Retry
from services.common.kafka.connection import Brokers, Properties, client_properties
from services.common.kafka.consumed_message import ConsumedMessage, consumed_message
from services.common.kafka.offset_tracker import OffsetTracker, TopicPartition

REQUEST_SECONDS = 10.0
READ_BATCH = 1000
READ_SECONDS = 0.1

READING: Properties = {"enable.partition.eof": True}


class PartitionReader:
    """Used by one thread. Every method may block, and raises Retry if the brokers do not answer."""

    def __init__(self, brokers: Brokers, group: str, properties: Properties = READING) -> None:
        """``group``: whose committed offsets :meth:`committed_offsets` tells; nothing is committed."""
        self.offsets = OffsetTracker()
        self._client = KafkaClient(
            client_properties(brokers)
            | {
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                # A message is handed over as soon as the broker has it.
                "fetch.min.bytes": 1,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
                "fetch.queue.backoff.ms": 20,
                "queued.max.messages.kbytes": 65536,
                "reconnect.backoff.max.ms": 1000,
                "socket.nagle.disable": True,
                # It would write a line for each attempt to connect; what matters of that comes as an error.
                "log_level": 2,
            }
            | properties
        )

    def __enter__(self) -> Self:
        """Connects lazily."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Read no more."""
        self._client.close()

    def assign_partitions(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self.offsets.revoke_partitions(self.offsets.partitions)
        self.offsets.assign_partitions(starts)
        self._client.assign([ClientPartition(*source, start) for source, start in sorted(starts.items())])

    def poll_batch(self, limit: int, timeout_seconds: float) -> list[ConsumedMessage]:
        """Wait for a message, then take what else is here already, up to ``limit``. May be empty."""
        with _answered("messages"):
            first = self._client.poll(timeout_seconds)
            if first is None:
                return []
            batch = self._track_messages([first])  # before more is taken: a rebalance meanwhile revokes this one
            # consume() alone would wait its whole time-out for a full batch.
            batch += self._track_messages(self._client.consume(limit - 1, 0)) if limit > 1 else []
        return [message for message in batch if self.offsets.is_current(message.tracked)]

    def read_messages(self, ends: Mapping[TopicPartition, int]) -> Iterator[ConsumedMessage]:
        """Every message before these offsets, from the beginning."""
        unread, silent_since = {source: end for source, end in ends.items() if end > 0}, time.monotonic()
        self.assign_partitions(dict.fromkeys(unread, 0))
        while unread:
            with _answered("messages"):
                messages = self._track_messages(self._client.consume(READ_BATCH, READ_SECONDS))
            yield from (message for message in messages if message.offset < ends[message.tracked.source])
            unread = {source: end for source, end in unread.items() if (self.offsets.next_offset(source) or 0) < end}
            if messages:
                silent_since = time.monotonic()
            elif unread and time.monotonic() - silent_since >= REQUEST_SECONDS:
                raise Retry(f"could not be read to the end: {', '.join(f'{t}/{p}' for t, p in sorted(unread))}")

    def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the group has committed; partitions of which it has committed nothing are left out."""
        wanted = [ClientPartition(*source) for source in sorted(partitions)]
        with _answered("committed offsets"):
            known = self._client.committed(wanted, timeout=REQUEST_SECONDS) if wanted else []
        return {source_of(each): each.offset for each in known if each.offset >= 0}

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first message that each partition still has."""
        return self._log_offsets(partitions, OFFSET_BEGINNING)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last message of each partition."""
        return self._log_offsets(partitions, OFFSET_END)

    def _log_offsets(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        wanted = [ClientPartition(*source, which) for source in sorted(partitions)]
        with _answered("offsets"):
            known = self._client.offsets_for_times(wanted, timeout=REQUEST_SECONDS) if wanted else []
        for each in known:
            if each.error is not None:
                raise Retry(f"offsets of {each.topic}/{each.partition}: {each.error.str()}")
        return {source_of(each): each.offset for each in known}

    def _track_messages(self, messages: Iterable[Message]) -> list[ConsumedMessage]:
        """Those that belong to the assignment. Errors come as messages too, and so does the end of a partition."""
        tracked = []
        for message in messages:
            source, error = TopicPartition(message.topic() or "", message.partition() or 0), message.error()
            if error is None:
                if (offset := self.offsets.track_offset(source, message.offset() or 0)) is not None:
                    tracked.append(consumed_message(message, offset))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.offsets.skip_to_offset(source, message.offset() or 0)
            else:
                self._handle_error(error)
        return tracked

    def _handle_error(self, error: KafkaError) -> None:
        raise Retry(f"could not be read: {error.str()}")


def source_of(place: ClientPartition) -> TopicPartition:
    """The partition that the client names."""
    return TopicPartition(place.topic, place.partition)


@contextmanager
def _answered(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise Retry(f"Kafka does not answer, asked for {what}: {error.args[0].str()}") from error
