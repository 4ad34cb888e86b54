"""Consumes batches of ``gitops.commands`` and ``gitops.observations.*``, from the offsets in the database.

One consumer reads all topics. The assignment strategy "range" gives partitions of equal numbers to the same planner, so
one planner has everything that concerns a tenant. ``gitops.fleet-orders`` has one partition: the planner that has it
decides about the fleet, wherever the tenants are. The offset up to which a partition's effects are written is a row in
PostgreSQL:

1. A batch is polled. Crash: it is polled again.
2. One transaction writes its effects and the ends of its spans. It fails if the database's offsets are not where the
   spans begin: then another planner has the partitions. Crash: as in 1. This planner does not claim the partitions
   again before the group assigns them, so it leaves the other one alone.
3. The messages are acknowledged, and the offsets are committed to Kafka, where tools see the lag. Crash: the offsets in
   Kafka stay behind; nothing reads them.

Observations wait until the planner has read the commands that were in the log when the partition was assigned.
Otherwise a planner whose database is older than the logs would read that a sync has ended before it reads that somebody
requested it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.common.kafka import (
    COMMANDS,
    FLEET_ORDERS,
    OBSERVATIONS,
    Brokers,
    ConsumedMessage,
    Consumer,
    Membership,
    TopicPartition,
    observations_topic,
    reporting_cluster,
)
from services.planner import SERVICE
from services.planner.database.save import Span

GROUP = "gitops-planner"


class Topics(NamedTuple):
    """The names of the topics that a planner reads."""

    commands: str = COMMANDS
    observations: str = f"^{re.escape(OBSERVATIONS)}(\\..+)?$"
    """A pattern, because each engine cluster has a topic. A topic that is added later is found within ten seconds."""
    fleet_orders: str = FLEET_ORDERS


TOPICS = Topics()

LoadOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in the order in which they were consumed, and the offsets that they span."""

    messages: tuple[ConsumedMessage, ...]
    spans: tuple[Span, ...]

    @classmethod
    def starting_at(cls, starts: Mapping[TopicPartition, int], messages: Iterable[ConsumedMessage]) -> Batch:
        """The batch of ``messages``, of partitions whose effects end at ``starts``."""
        messages = tuple(messages)
        ends = {message.tracked.source: message.offset + 1 for message in messages}
        return cls(messages, tuple(Span(*source, starts[source], ends[source]) for source in sorted(ends)))

    def split_batch(self) -> Iterator[Batch]:
        """The same messages, each in a batch of its own."""
        starts = {TopicPartition(span.topic, span.partition): span.expected for span in self.spans}
        for message in self.messages:
            yield Batch.starting_at(starts, [message])
            starts[message.tracked.source] = message.offset + 1


class BatchConsumer:
    """See the module. One thread uses it; rebalances happen inside :meth:`poll_batch`."""

    def __init__(
        self,
        brokers: Brokers,
        load_offsets: LoadOffsets,
        group: str = GROUP,
        topics: Topics = TOPICS,
    ) -> None:
        """``load_offsets`` reads the database at each assignment, and returns nothing if it cannot."""
        self._commands, self._fleet_orders = topics.commands, topics.fleet_orders
        self._is_of_observations = re.compile(topics.observations).fullmatch
        membership = Membership(SERVICE, group, tuple(topics), "range", load_offsets, order=self._rank)
        self._consumer = Consumer(brokers, membership)
        self.offsets = self._consumer.offsets
        self.rejoin_group = self._consumer.rejoin_group
        self.leave_group, self.join_group = self._consumer.leave_group, self._consumer.join_group
        self.close = self._consumer.close

    def _rank(self, topic: str) -> int | None:
        """The order of topics: commands, then observations in the topic of former releases, then other observations."""
        if topic == self._commands:
            return 0
        return (1 if topic == OBSERVATIONS else 2) if self._is_of_observations(topic) else None

    @property
    def lacks_starts(self) -> bool:
        """Whether offsets of assigned partitions could not be loaded: then the planner has to leave the group."""
        return self._consumer.lacks_starts

    @property
    def partitions(self) -> list[int]:
        """The numbers of the tenants' partitions that are assigned: those of commands, which observations share."""
        return sorted(source.partition for source in self.offsets.partitions if source.topic == self._commands)

    @property
    def fleet_partition(self) -> int | None:
        """The number of the orders' partition, or None if it is not assigned. Who has it decides about the fleet."""
        numbers = (source.partition for source in self.offsets.partitions if source.topic == self._fleet_orders)
        return next(numbers, None)

    def poll_batch(self, limit: int, timeout_seconds: float) -> Batch:
        """Wait for a message, then take what has arrived already, up to ``limit``. The batch may be empty."""
        messages = self._consumer.poll_batch(limit, timeout_seconds)
        return Batch.starting_at(self._starts(), messages)

    def acknowledge_batch(self, batch: Batch) -> None:
        """Acknowledge the messages of ``batch``, whose effects are in the database."""
        for message in batch.messages:
            self.offsets.acknowledge_offset(message.tracked)

    def spans_of(self, partitions: Iterable[int]) -> list[Span]:
        """Empty spans of these partitions. They can be saved only while the partitions are assigned to this planner.

        Only partitions of commands have one: who has the commands of a number also has the observations.
        """
        wanted = set(partitions)
        starts = sorted(self._starts().items())
        return [
            Span(*source, end, end)
            for source, end in starts
            if source.partition in wanted and not self._is_of_observations(source.topic)
        ]

    def sources_of_observations(self, number: int, engine_cluster: str) -> list[TopicPartition]:
        """The partitions of this number that hold the reports of a cluster's agents, also those of former releases.

        Empty if the partition that the agents write to now is not assigned to this planner.
        """
        own, former = (TopicPartition(topic, number) for topic in (observations_topic(engine_cluster), OBSERVATIONS))
        assigned = self.offsets.partitions
        return [each for each in (own, former) if each in assigned] if own in assigned else []

    @property
    def reporting_clusters(self) -> set[str]:
        """The engine clusters of which partitions of observations are assigned to this planner."""
        found = (reporting_cluster(source.topic) for source in self.offsets.partitions)
        return {cluster for cluster in found if cluster is not None}

    def are_assigned(self, sources: Iterable[TopicPartition]) -> bool:
        """Whether all of these partitions are assigned to this planner."""
        return {*sources} <= {*self.offsets.partitions}

    def find_ends(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of these partitions now; empty if the brokers do not return all of them."""
        ends = {source: self._consumer.end_offset(source) for source in sources}
        known = {source: end for source, end in ends.items() if end is not None}
        return known if len(known) == len(ends) else {}

    def has_taken_in(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the effects of all messages before these offsets are in the database, for partitions of ours."""
        taken_in = {source: self.offsets.committable_offset(source) for source in ends}
        return all(offset is None or offset >= ends[source] for source, offset in taken_in.items())

    def _starts(self) -> dict[TopicPartition, int]:
        return {source: self.offsets.committable_offset(source) or 0 for source in self.offsets.partitions}
