"""Where a partition is taken up: the position that the database holds, judged by what the log is and still has.

A position counts within one log. In a cluster that takes the place of a lost one the topic is another, though its name
is the same, and its offsets begin again: who went on at the old one would pass over every message until the new log is
as long as the former was. A log that was put back, from a copy of the brokers' disks, ends before the position: what
it gets now takes offsets that were used before. Either is read from its beginning; what is known already changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog
from psycopg import Connection

from services.common.kafka import COMMANDS, LogExtent, TopicPartition
from services.common.telemetry.metrics import LOGS_MADE_ANEW, MESSAGES_MISSED
from services.planner import SERVICE

log = structlog.get_logger(__name__)

ENSURE_POSITIONS = """
INSERT INTO consumer_offsets (topic, partition, next_offset)
SELECT *, 0 FROM unnest(%s::text[], %s::int4[]) ON CONFLICT DO NOTHING
"""
FORGET_POSITIONS = """
DELETE FROM consumer_offsets AS known
 WHERE NOT EXISTS (SELECT FROM unnest(%s::text[], %s::int4[]) AS existing(topic, partitions)
                    WHERE existing.topic = known.topic AND known.partition < existing.partitions)
"""
LOCK_POSITIONS = """
SELECT topic, partition, topic_id, next_offset
  FROM consumer_offsets JOIN unnest(%s::text[], %s::int4[]) AS asked(topic, partition) USING (topic, partition)
   FOR UPDATE OF consumer_offsets
"""
TAKE_UP = """
UPDATE consumer_offsets AS known SET owner = %s, topic_id = begun.topic_id, next_offset = begun.next_offset
  FROM unnest(%s::text[], %s::int4[], %s::text[], %s::int8[]) AS begun(topic, partition, topic_id, next_offset)
 WHERE (known.topic, known.partition) = (begun.topic, begun.partition)
"""

# The epochs of a new log may be lower: its commands are not late for that (services/planner/domain/late_commands), and
# what it shows is not unseen.
FORGET_LISTS = "DELETE FROM complete_lists WHERE partition = ANY(%s)"
FORGET_SWEEPS = "DELETE FROM sweep_parts WHERE partition = ANY(%s)"


@dataclass(frozen=True, slots=True)
class Position:
    """Of one partition."""

    topic_id: str
    """Of the topic that the offset is of; empty: not known."""
    next_offset: int
    """The first message whose effect is not in the database."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a partition is taken up, and what operators have to know of that."""

    position: Position
    missed: int = 0
    """Messages that retention took away before they were consumed."""
    made_anew: bool = False
    """The log is not the one that was consumed before."""

    def report(self, source: TopicPartition) -> None:
        """Tell operators, who have to have everything listed and reported anew."""
        if self.missed:
            MESSAGES_MISSED.labels(SERVICE, source.topic).inc(self.missed)
            log.error("retention took messages away before they were consumed", missed=self.missed, **_named(source))
        if self.made_anew:
            LOGS_MADE_ANEW.labels(SERVICE, source.topic).inc()
            log.error("this is not the log that was consumed before; it is read anew", **_named(source))


def lock_positions(connection: Connection, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Position]:
    """The stored positions, 0 of a partition that has none; nobody else moves them until the transaction ends."""
    columns = [[topic for topic, _ in partitions], [partition for _, partition in partitions]]
    connection.execute(ENSURE_POSITIONS, columns)
    rows = connection.execute(LOCK_POSITIONS, columns).fetchall()
    return {TopicPartition(row[0], row[1]): Position(row[2], row[3]) for row in rows}


def resume(known: Position, log_: LogExtent | None) -> Resumed:
    """Where to go on; as ``known`` if nothing is known of the log."""
    if log_ is None:
        return Resumed(known)
    begin = Position(log_.topic_id, log_.first)
    if known.topic_id not in ("", log_.topic_id) or known.next_offset > log_.end:
        return Resumed(begin, made_anew=True)
    if known.next_offset >= log_.first:
        return Resumed(Position(log_.topic_id, known.next_offset))
    # What was never consumed from is new to this database: a rebuild begins with what there still is.
    return Resumed(begin, missed=log_.first - known.next_offset if known.next_offset else 0)


def take_up(connection: Connection, owner: UUID | None, begun: Mapping[TopicPartition, Resumed]) -> None:
    """Store where partitions are taken up, and by whom; of a log that was made anew, forget which lists it had."""
    positions = [
        (*source, resumed.position.topic_id, resumed.position.next_offset) for source, resumed in begun.items()
    ]
    columns = [list(column) for column in zip(*positions, strict=True)] or [[], [], [], []]
    connection.execute(TAKE_UP, [owner, *columns])
    made_anew = [
        source.partition for source, resumed in begun.items() if resumed.made_anew and source.topic == COMMANDS
    ]
    if made_anew:
        connection.execute(FORGET_LISTS, [made_anew])
        connection.execute(FORGET_SWEEPS, [made_anew])


def forget_positions(connection: Connection, existing: Mapping[str, int]) -> int:
    """Delete those of partitions that are not there any more; returns how many. ``existing``: per topic."""
    return connection.execute(FORGET_POSITIONS, [list(existing), list(existing.values())]).rowcount


def _named(source: TopicPartition) -> dict[str, str | int]:
    return {"topic": source.topic, "partition": source.partition}
