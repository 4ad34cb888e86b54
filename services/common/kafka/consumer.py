"""The Kafka consumer of services that share topics in a group. Used by one thread, which polls.

The agent does not use it: faust consumes its topic (:mod:`services.agent.stream.faust_app`).

Messages are acknowledged at the tracker (``offsets``), from any thread. At each poll the committable offsets are stored
with librdkafka, which commits them every second, on a rebalance and on close. A service that stores its offsets
elsewhere provides them with ``load_offsets``; its commits to Kafka only show the lag to tools.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import structlog
from confluent_kafka import Consumer as KafkaClient
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from services.common.errors import Unavailable
from services.common.kafka.brokers import Brokers, answered, consumer_properties
from services.common.kafka.consumed_message import (
    ConsumedMessage,
    consumed_message,
    measure_messages,
    source_of_message,
    source_of_partition,
)
from services.common.kafka.group_session import GroupSession
from services.common.kafka.log_end import end_offset
from services.common.kafka.offset_tracker import OffsetTracker, TopicPartition
from services.common.kafka.topic_order import PausedPartitions, TopicOrder
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

SESSION_SECONDS = 6
HEARTBEAT_MS = 1_000
"""How soon a member learns that another one has come or gone."""
COMMIT_MS = 1_000
REFRESH_MS = 30_000
NEW_TOPICS_MS = 10_000
"""How often consumers with a pattern look for new topics. A broker goes through all topics for that, so only these
consumers look so often."""
CONFIRM_SECONDS = 1.0
CONFIRM_AGAIN_SECONDS = 0.1
"""Seconds between two checks of our membership, and while it is unknown."""
LAG_SECONDS = 5.0
COMPLAINT_SECONDS = 30.0
UNAVAILABLE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED)
"""Errors about a topic. If we may not know a topic, the broker returns the second, whether or not it exists."""

LoadOffsets = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]
OnRevoke = Callable[[Sequence[TopicPartition]], None]


@dataclass(frozen=True, slots=True)
class Membership:
    """How a consumer shares topics with other members of a group."""

    service: str
    group: str
    topics: tuple[str, ...]
    """Names of the topics. A name that begins with ``^`` is a regular expression, which also matches future topics."""
    strategy: Literal["range", "cooperative-sticky"]
    """``range``: equal partition numbers of all topics are assigned to the same member, anew at each rebalance."""
    load_offsets: LoadOffsets | None = None
    """Called when partitions are assigned. Returns nothing if it cannot load the offsets: then the member has to leave.
    None: the committed offsets count."""
    on_revoke: OnRevoke = lambda _: None
    """Called before another member may get these partitions: after it returns, nothing may act on them. What it
    acknowledges is still committed."""
    order: TopicOrder | None = None
    """Which topics wait for which, if any do. Only with ``range`` and ``load_offsets``."""
    session: GroupSession | None = None
    """Confirmed from time to time, for services whose changes no transaction fences. Has :data:`SESSION_SECONDS`."""


class Consumer:
    """A member of a consumer group. Rebalances happen inside :meth:`poll_batch`."""

    def __init__(self, brokers: Brokers, membership: Membership) -> None:
        """The consumer joins its group with the first poll."""
        self.offsets = OffsetTracker()
        self.was_assigned = False
        """Whether the group has ever assigned partitions to this member."""
        self.lacks_starts = False
        """Whether ``load_offsets`` did not return a start for each assigned partition: then the member has to leave."""
        self.unavailable_topics: set[str] = set()
        """Topics that the brokers do not know, or do not let us read. The client asks for them again now and then."""
        self._membership, self._service = membership, membership.service
        self._asked_at = 0.0
        self._paused = False
        self._lag_measured_at = 0.0
        self._complained_at = -COMPLAINT_SECONDS
        properties = consumer_properties(brokers, membership.group) | {
            "client.id": membership.service,
            "partition.assignment.strategy": membership.strategy,
            # After a kill -9 the partitions are free again this soon: a process that starts anew waits for no longer.
            "session.timeout.ms": SESSION_SECONDS * 1000,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "enable.auto.commit": True,  # of what is stored
            "auto.commit.interval.ms": COMMIT_MS,
            "topic.metadata.refresh.interval.ms": NEW_TOPICS_MS if _has_pattern(membership) else REFRESH_MS,
            "error_cb": self._log_error,
            "on_commit": self._on_commit,
        }
        self._client = KafkaClient(properties)
        self._paused_partitions = (
            PausedPartitions(membership.order, self._client, self.offsets) if membership.order else None
        )
        self._subscribe()

    def poll_batch(self, limit: int, timeout_seconds: float) -> list[ConsumedMessage]:
        """Wait for a message, and return up to ``limit`` messages that are available. May be empty.

        Raises Retry if the brokers do not answer, Unavailable if the consumer cannot go on.
        """
        if self._paused_partitions is not None:
            self._paused_partitions.resume_partitions()
        return self._next_batch(limit, timeout_seconds)

    def set_paused(self, paused: bool) -> None:
        """Pause or resume fetching. Polling continues, so that the broker knows that this member is alive."""
        if paused:  # each time: partitions may have come since
            self._client.pause(self._client.assignment())
        elif self._paused:
            self._client.resume(self._client.assignment())
        self._paused = paused

    def end_offset(self, source: TopicPartition) -> int | None:
        """The offset after the partition's last message; None if the brokers do not answer."""
        return end_offset(self._client, source)

    def rejoin_group(self) -> None:
        """Give up all partitions and join the group anew, because only the group knows the assignment.

        Messages that were not acknowledged are consumed again, by the partition's next owner.
        """
        self.leave_group()
        self.join_group()

    def leave_group(self) -> None:
        """Give up all partitions, and leave the group until :meth:`join_group`. Polls then return nothing."""
        self._store_offsets()
        self.offsets.revoke_partitions(self.offsets.partitions)
        self._client.unsubscribe()

    def join_group(self) -> None:
        """Join the group again."""
        self.lacks_starts = False
        self._subscribe()

    def close(self) -> None:
        """Commit what is acknowledged, and leave the group."""
        self._store_offsets()
        self._client.close()

    def _subscribe(self) -> None:
        self._client.subscribe(
            list(self._membership.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def _next_batch(self, limit: int, timeout_seconds: float) -> list[ConsumedMessage]:
        self._store_offsets()
        if self._membership.session is not None:
            self._ask_for_confirmation(self._membership.session)
        self._measure_lag()
        messages = self._poll(limit, timeout_seconds)
        if messages:
            metrics.BATCH_SIZE.labels(self._service).observe(len(messages))
            measure_messages(self._service, messages)
        return messages

    def _poll(self, limit: int, timeout_seconds: float) -> list[ConsumedMessage]:
        with answered("messages"):
            first = self._client.poll(timeout_seconds)
            if first is None:
                return []
            earlier = self._track_messages([first])  # before the others: a rebalance among them may revoke it
            # consume() alone would wait its whole time-out for a full batch.
            rest = self._client.consume(limit - 1, 0) if limit > 1 else []
        later = self._track_messages(rest)
        return [message for message in earlier if self.offsets.is_current(message.tracked)] + later

    def _track_messages(self, messages: Iterable[Message]) -> list[ConsumedMessage]:
        """The messages of the current assignment. Errors come as messages, too."""
        batch = []
        for message in messages:
            if (error := message.error()) is not None:
                self._handle_error(error, message.topic())
            elif (tracked := self.offsets.track_offset(source_of_message(message), message.offset() or 0)) is not None:
                batch.append(consumed_message(message, tracked))
        return batch

    def _handle_error(self, error: KafkaError, topic: str | None) -> None:
        """Log the error. librdkafka recovers by itself from all but fatal ones."""
        if error.fatal():
            raise Unavailable(f"the consumer cannot go on: {error.str()}")
        if topic is not None and error.code() in UNAVAILABLE:
            self.unavailable_topics.add(topic)
        metrics.count_failure(self._service, metrics.Failure.RETRY, "consume")
        log.warning("consuming failed, librdkafka goes on", error=error.str())

    def _log_error(self, error: KafkaError) -> None:
        """Log from time to time why no messages come. The client retries by itself."""
        metrics.count_failure(self._service, metrics.Failure.RETRY, "kafka")
        if time.monotonic() - self._complained_at >= COMPLAINT_SECONDS:
            self._complained_at = time.monotonic()
            log.warning("Kafka does not answer", error=error.str())

    def _store_offsets(self) -> None:
        for source, offset in self.offsets.take_committable_offsets().items():
            try:
                self._client.store_offsets(offsets=[ClientPartition(*source, offset)])
            except KafkaException as error:
                # Not assigned any more: the new owner reads these again.
                if error.args[0].code() != KafkaError._STATE:
                    raise

    def _ask_for_confirmation(self, session: GroupSession) -> None:
        """Commit an offset, even if it has not changed: the broker accepts that from members only.

        Like a heartbeat it keeps the member alive, but librdkafka does not report heartbeats. The answer comes with a
        later poll, and has the time of the question.
        """
        now = session.clock.time()
        if now - self._asked_at < (CONFIRM_SECONDS if session.is_confirmed else CONFIRM_AGAIN_SECONDS):
            return
        open_ = ((source, self.offsets.first_open_offset(source)) for source in self.offsets.partitions)
        known = next(((source, offset) for source, offset in open_ if offset is not None), None)
        if known is None:  # and so there is nothing to change
            return
        self._asked_at = now
        source, offset = known
        with suppress(KafkaException):  # it is not to be had now, and asked for again
            self._client.commit(offsets=[ClientPartition(*source, offset, metadata=repr(now))], asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: list[ClientPartition]) -> None:
        for partition in partitions if error is None else ():
            if self._membership.session is not None and partition.metadata and partition.error is None:
                self._membership.session.confirm_membership(float(partition.metadata))

    def _on_assign(self, _: KafkaClient, assigned: list[ClientPartition]) -> None:
        sources = sorted(map(source_of_partition, assigned))
        if self._membership.load_offsets is None:
            self.offsets.assign_partitions(dict.fromkeys(sources))  # librdkafka begins at the committed offsets
        else:
            starts = self._membership.load_offsets(sources) if sources else {}
            self.lacks_starts = len(starts) < len(sources)
            self.offsets.revoke_partitions(self.offsets.partitions)
            self.offsets.assign_partitions(starts)
            self._client.assign([ClientPartition(*source, start) for source, start in sorted(starts.items())])
            if self._paused_partitions is not None:
                self._paused_partitions.pause_partitions(starts)
        self.unavailable_topics -= {source.topic for source in sources}
        log.info("partitions assigned", partitions=sorted({source.partition for source in sources}))
        self.was_assigned, self._lag_measured_at = True, 0.0

    def _on_revoke(self, _: KafkaClient, revoked: list[ClientPartition]) -> None:
        """Give partitions up. A crash between two steps causes a repetition by the next owner.

        1. Nothing acts on them any more.
        2. The committable offsets are stored: librdkafka commits them before it gives the partitions up.
        3. Later acknowledgements have no effect.
        """
        sources = sorted(map(source_of_partition, revoked))
        self._membership.on_revoke(sources)
        self._store_offsets()
        self.offsets.revoke_partitions(sources)
        log.info("partitions revoked", partitions=sorted({source.partition for source in sources}))
        for source in sources:
            metrics.LAG.labels(self._service, *source).set(0)  # the next owner's to report

    def _measure_lag(self) -> None:
        """Measure unacknowledged messages, by the broker's last answer; 0 if that is unknown."""
        if time.monotonic() - self._lag_measured_at < LAG_SECONDS:
            return
        self._lag_measured_at = time.monotonic()
        for source in self.offsets.partitions:
            ends = self._client.get_watermark_offsets(ClientPartition(*source), cached=True)
            committable = self.offsets.committable_offset(source)
            lag = ends[1] - committable if ends and committable is not None else 0
            metrics.LAG.labels(self._service, *source).set(max(0, lag))


def _has_pattern(membership: Membership) -> bool:
    return any(topic.startswith("^") for topic in membership.topics)
