"""Which offsets a batch spans."""

from __future__ import annotations

from services.common.kafka import TopicPartition
from services.planner.database.save import Span
from services.planner.pipeline.batch_consumer import Batch
from tests.unit.common.kafka.messages import consumed

COMMANDS, OBSERVATIONS = "gitops.commands", "gitops.observations"
STARTS = {TopicPartition(COMMANDS, 0): 4, TopicPartition(COMMANDS, 7): 0, TopicPartition(OBSERVATIONS, 0): 1}


def test_batch_when_partitions_have_gaps_then_its_spans_reach_from_their_starts_behind_the_last_messages() -> None:
    batch = Batch.starting_at(STARTS, [consumed(COMMANDS, 4), consumed(OBSERVATIONS, 3), consumed(COMMANDS, 9)])
    assert batch.spans == (Span(COMMANDS, 0, 4, 10), Span(OBSERVATIONS, 0, 1, 4))


def test_batch_when_split_then_each_message_spans_what_is_before_it() -> None:
    batch = Batch.starting_at(STARTS, [consumed(COMMANDS, 4), consumed(OBSERVATIONS, 3), consumed(COMMANDS, 9)])
    assert [single.spans for single in batch.split_batch()] == [
        (Span(COMMANDS, 0, 4, 5),),
        (Span(OBSERVATIONS, 0, 1, 4),),
        (Span(COMMANDS, 0, 5, 10),),
    ]
    assert [message for single in batch.split_batch() for message in single.messages] == list(batch.messages)
