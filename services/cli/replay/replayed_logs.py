"""Replays the logs as planners do, with the same code, into a scratch database. Called by ``gitopsctl replay at``.

Commands and observations of partitions of one number are taken in the order in which they were written: planners took
them up in about that order. What the clock asks planners for is left out: it changes what is shown, and not what is
desired. But what a list lacked is removed, all of it right after the batch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from services.cli.sending import CLIENT
from services.common.errors import Poison
from services.common.kafka import Brokers, ConsumedMessage, PartitionReader, TopicPartition, TrackedOffset
from services.planner.database.periodic_queries import find_due_sweep
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event, SweepDue
from services.planner.domain.policy import Policy
from services.planner.domain.sweeps import replace_part
from services.planner.pipeline.batch_consumer import Batch
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.coalesce import coalesce
from services.planner.pipeline.decode import Codec, decode_event
from services.planner.pipeline.report_origins import without_foreign_reports

BATCH = 500

Offsets = Mapping[TopicPartition, int]


@dataclass
class Replay:
    """Plans and saves batches of messages, each in one transaction."""

    session: DatabaseSession
    codecs: Mapping[str, Codec]
    """By log."""
    policy: Policy
    given_up: set[TrackedOffset] = field(default_factory=set)
    """Messages that cannot be understood, or that the database refuses: planners made dead letters of them."""
    _next: dict[TopicPartition, int] = field(default_factory=dict)

    def begin(self, sources: Sequence[TopicPartition]) -> None:
        """These partitions are to be replayed."""
        self._next = self.session.claim_partitions(sources)

    def apply_messages(self, messages: Sequence[ConsumedMessage]) -> None:
        """Have their effects in the database."""
        batch = Batch.starting_at(self._next, messages)
        try:
            self._save(batch)
        except Poison:
            if len(messages) == 1:
                self.given_up.add(messages[0].tracked)
                self.session.save_changes(BatchChanges(), batch.spans)
            else:
                for single in batch.split_batch():
                    self.apply_messages(single.messages)
        self._remove_lacking(messages)
        self._next |= {TopicPartition(span.topic, span.partition): span.next for span in batch.spans}

    def _save(self, batch: Batch) -> None:
        now = _written_at(batch.messages)
        events = without_foreign_reports([*self._events(batch.messages)], self.session.find_engine_clusters)
        *before, last = split_at_markers(coalesce(events))
        for part in before:
            changes = plan_batch(part, self.session, self.policy, now)
            self.session.write_changes(changes, [replace(span, next=span.expected) for span in batch.spans])
        self.session.save_changes(plan_batch(last, self.session, self.policy, now), batch.spans)

    def _remove_lacking(self, messages: Sequence[ConsumedMessage]) -> None:
        """All parts of what the lists lacked that ``messages`` complete."""
        now, partitions = _written_at(messages), sorted({source.partition for source in self._next})
        while (due := self._due_sweep(partitions)) is not None:
            event = Event(due, due.part.partition, due.part.trace_id)
            try:
                self.session.save_changes(plan_batch([event], self.session, self.policy, now), ())
            except Poison:
                self.session.save_changes(BatchChanges(other=replace_part(due)), ())

    def _due_sweep(self, partitions: Sequence[int]) -> SweepDue | None:
        with self.session.connection() as connection:
            return find_due_sweep(connection, partitions)

    def _events(self, messages: Iterable[ConsumedMessage]) -> Iterator[Event]:
        for message in messages:
            try:
                yield decode_event(message, self.codecs)
            except Poison:
                self.given_up.add(message.tracked)


def _written_at(messages: Iterable[ConsumedMessage]) -> datetime:
    """When the newest of them was."""
    return datetime.fromtimestamp(max(message.timestamp for message in messages), UTC)


def replay_logs(brokers: Brokers, replay: Replay, ends: Offsets, tell: Callable[[int, int], None]) -> None:
    """Replay all that these partitions hold before ``ends``, the partitions of one number at a time.

    ``tell`` is called with how many messages were replayed, and of how many. Raises Retry if the brokers do not answer.
    """
    with PartitionReader(brokers, CLIENT) as reader:
        starts = reader.first_offsets(ends)
    replay.begin(sorted(ends))
    done, total = 0, sum(max(0, end - starts[source]) for source, end in ends.items())
    for number in sorted({source.partition for source in ends}):
        of_number = {source: end for source, end in ends.items() if source.partition == number}
        for messages in in_batches(_in_order(brokers, starts, of_number), BATCH):
            replay.apply_messages(messages)
            done += len(messages)
            tell(done, total)


def merged(logs: Iterable[Iterable[ConsumedMessage]]) -> Iterator[ConsumedMessage]:
    """The messages of several logs in the order in which they were written; those of each in its own."""
    return heapq.merge(*logs, key=lambda message: message.timestamp)


def in_batches(messages: Iterator[ConsumedMessage], size: int) -> Iterator[Sequence[ConsumedMessage]]:
    """All of ``messages``, so many at a time."""
    while batch := tuple(islice(messages, size)):
        yield batch


def _in_order(brokers: Brokers, starts: Offsets, ends: Offsets) -> Iterator[ConsumedMessage]:
    """Each log by a reader of its own: a client hands out what comes first."""
    return merged(_read(brokers, starts, {source: end}) for source, end in ends.items())


def _read(brokers: Brokers, starts: Offsets, ends: Offsets) -> Iterator[ConsumedMessage]:
    with PartitionReader(brokers, CLIENT) as reader:
        yield from reader.read_messages(ends, starts)
