"""Consumes batches of ``gitops.commands`` and ``gitops.observations.*``, from the offsets in the database.

One consumer for all topics. With the assignment strategy "range" equal partition numbers of them go to the same
planner, and so does all that concerns a tenant. The one partition of ``gitops.fleet-orders`` is among them: whose it
is decides on the fleet, whichever tenants are its own. Where a partition's effects end is a row in PostgreSQL:

1. A batch is polled. Crash: it is polled again.
2. Its effects and the ends of its spans are written in one transaction, which fails if the database's offsets are not
   where the spans begin: another planner has the partitions by now. Crash: as in 1.
   That other planner is left alone: this one takes nothing up again before the group assigns it.
3. Its messages are acknowledged, and the offsets committed to Kafka, where tools see the lag. Crash: the offsets in
   Kafka stay behind; nothing reads them.

What agents tell is taken in after the commands that were there when the partition was assigned. A planner whose
database is older than the logs would else be told of the end of a sync before it hears that somebody asks for it.
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
    """By name."""

    commands: str = COMMANDS
    observations: str = f"^{re.escape(OBSERVATIONS)}(\\..+)?$"
    """A pattern: each engine cluster has a topic. One that was added later is found within ten seconds."""
    fleet_orders: str = FLEET_ORDERS


TOPICS = Topics()

LoadOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in the order in which they were consumed, and the offsets they span."""

    messages: tuple[ConsumedMessage, ...]
    spans: tuple[Span, ...]

    @classmethod
    def starting_at(cls, starts: Mapping[TopicPartition, int], messages: Iterable[ConsumedMessage]) -> Batch:
        """The batch of ``messages``, of partitions whose effects end at ``starts``."""
        messages = tuple(messages)
        ends = {message.tracked.source: message.offset + 1 for message in messages}
        return cls(messages, tuple(Span(*source, starts[source], ends[source]) for source in sorted(ends)))

    def split_batch(self) -> Iterator[Batch]:
        """The same messages, each as a batch of its own."""
        starts = {TopicPartition(span.topic, span.partition): span.expected for span in self.spans}
        for message in self.messages:
            yield Batch.starting_at(starts, [message])
            starts[message.tracked.source] = message.offset + 1


class BatchConsumer:
    """See the module. Not for more than one thread; rebalances happen inside :meth:`poll_batch`."""

    def __init__(
        self,
        brokers: Brokers,
        load_offsets: LoadOffsets,
        group: str = GROUP,
        topics: Topics = TOPICS,
    ) -> None:
        """``load_offsets`` reads the database; it is called at each assignment, and says nothing if it cannot."""
        self._commands, self._fleet_orders = topics.commands, topics.fleet_orders
        self._is_of_observations = re.compile(topics.observations).fullmatch
        membership = Membership(SERVICE, group, tuple(topics), "range", load_offsets, order=self._rank)
        self._consumer = Consumer(brokers, membership)
        self.offsets = self._consumer.offsets
        self.rejoin_group = self._consumer.rejoin_group
        self.leave_group, self.join_group = self._consumer.leave_group, self._consumer.join_group
        self.close = self._consumer.close

    def _rank(self, topic: str) -> int | None:
        """Commands come before what agents tell, and what they told in former releases before what they tell now."""
        if topic == self._commands:
            return 0
        return (1 if topic == OBSERVATIONS else 2) if self._is_of_observations(topic) else None

    @property
    def lacks_starts(self) -> bool:
        """Whether there are partitions that the database did not let us take up: we have to leave the group."""
        return self._consumer.lacks_starts

    @property
    def partitions(self) -> list[int]:
        """The numbers of the tenants' partitions that are assigned: those of commands, with what agents tell."""
        return sorted(source.partition for source in self.offsets.partitions if source.topic == self._commands)

    @property
    def fleet_partition(self) -> int | None:
        """The number of the orders' partition, if it is assigned: then this planner decides on the fleet."""
        numbers = (source.partition for source in self.offsets.partitions if source.topic == self._fleet_orders)
        return next(numbers, None)

    def poll_batch(self, limit: int, timeout_seconds: float) -> Batch:
        """Wait for a message, then take what else is here already, up to ``limit``. May be empty."""
        messages = self._consumer.poll_batch(limit, timeout_seconds)
        return Batch.starting_at(self._starts(), messages)

    def acknowledge_batch(self, batch: Batch) -> None:
        """The database has the effects of ``batch``."""
        for message in batch.messages:
            self.offsets.acknowledge_offset(message.tracked)

    def spans_of(self, partitions: Iterable[int]) -> list[Span]:
        """Spans without messages: they can be saved only as long as these partitions are ours.

        Those of commands are enough: whoever acts on observations of a number has its commands.
        """
        wanted = set(partitions)
        starts = sorted(self._starts().items())
        return [
            Span(*source, end, end)
            for source, end in starts
            if source.partition in wanted and not self._is_of_observations(source.topic)
        ]

    def sources_of_observations(self, number: int, engine_cluster: str) -> list[TopicPartition]:
        """The partitions of this number in which the cluster's agents report, or did in former releases.

        Empty if that in which they report now is not assigned to us.
        """
        own, former = (TopicPartition(topic, number) for topic in (observations_topic(engine_cluster), OBSERVATIONS))
        assigned = self.offsets.partitions
        return [each for each in (own, former) if each in assigned] if own in assigned else []

    @property
    def reporting_clusters(self) -> set[str]:
        """The engine clusters of whose observations partitions are assigned to us."""
        found = (reporting_cluster(source.topic) for source in self.offsets.partitions)
        return {cluster for cluster in found if cluster is not None}

    def are_assigned(self, sources: Iterable[TopicPartition]) -> bool:
        """Whether all of these partitions are ours."""
        return {*sources} <= {*self.offsets.partitions}

    def find_ends(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these partitions end now; empty if the brokers do not say it of one."""
        ends = {source: self._consumer.end_offset(source) for source in sources}
        known = {source: end for source, end in ends.items() if end is not None}
        return known if len(known) == len(ends) else {}

    def has_taken_in(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the database has the effects of all before these offsets, as far as the partitions are ours."""
        taken_in = {source: self.offsets.committable_offset(source) for source in ends}
        return all(offset is None or offset >= ends[source] for source, offset in taken_in.items())

    def _starts(self) -> dict[TopicPartition, int]:
        return {source: self.offsets.committable_offset(source) or 0 for source in self.offsets.partitions}
