"""When a consumer counts as standing still, and when it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from services.agent.agent import Agent
from services.agent.stream.engine_stream import EngineStream
from services.agent.stream.stall_detector import STALLED_SECONDS, StallDetector
from services.common.errors import Retry
from services.common.kafka import OffsetTracker, TopicPartition
from tests.unit.fake_clock import FakeClock

LONG = STALLED_SECONDS + 1


@pytest.fixture
def stalls(time: FakeClock) -> StallDetector:
    return StallDetector(time)


def test_consumer_when_it_is_behind_and_does_not_move_then_it_stands_still(
    time: FakeClock, stalls: StallDetector
) -> None:
    stalls.record_positions({0: (5, 5)}, {0: 9}, None)
    time.seconds += LONG
    stalls.record_positions({0: (5, 5)}, {0: 9}, None)
    assert stalls.stalled() == "nothing taken in of partition 0 for 121 s"


def test_consumer_when_it_stands_still_for_less_than_a_rebalance_takes_then_nothing_is_said(
    time: FakeClock, stalls: StallDetector
) -> None:
    stalls.record_positions({0: (5, 5)}, {0: 9}, None)
    time.seconds += STALLED_SECONDS
    assert stalls.stalled() == ""


def test_consumer_when_its_position_cannot_be_read_then_it_stands_still(time: FakeClock, stalls: StallDetector) -> None:
    stalls.record_positions({}, {0: 9}, None)
    time.seconds += LONG
    stalls.record_positions({}, {0: 9}, None)
    assert stalls.stalled()


def test_consumer_when_there_is_nothing_more_then_it_may_rest(time: FakeClock, stalls: StallDetector) -> None:
    stalls.record_positions({0: (9, 9)}, {0: 9}, None)
    time.seconds += LONG
    stalls.record_positions({0: (9, 9)}, {0: 9}, None)
    assert stalls.stalled() == ""


def test_consumer_when_a_message_is_in_hand_for_long_then_it_stands_still_however_far_it_has_read(
    time: FakeClock, stalls: StallDetector
) -> None:
    stalls.record_positions({0: (9, 5)}, {0: 9}, 0)
    time.seconds += LONG
    stalls.record_positions({0: (9, 5)}, {0: 9}, 0)
    assert "partition 0" in stalls.stalled()


def test_consumer_when_it_moves_however_slowly_then_it_gets_on(time: FakeClock, stalls: StallDetector) -> None:
    for offset in range(3):
        stalls.record_positions({0: (offset, offset)}, {0: 9}, None)
        time.seconds += STALLED_SECONDS - 1
    assert stalls.stalled() == ""


def test_consumer_when_one_partition_moves_then_it_does_not_excuse_another(
    time: FakeClock, stalls: StallDetector
) -> None:
    for offset in range(4):
        stalls.record_positions({0: (offset, offset), 7: (5, 5)}, {0: 9, 7: 9}, None)
        time.seconds += STALLED_SECONDS / 2
    assert "partition 7" in stalls.stalled()


def test_consumer_when_it_was_excused_then_its_time_begins_anew(time: FakeClock, stalls: StallDetector) -> None:
    stalls.record_positions({0: (5, 5)}, {0: 9}, None)
    time.seconds += LONG
    stalls.reset()
    stalls.record_positions({0: (5, 5)}, {0: 9}, None)
    assert stalls.stalled() == ""


class Brokers:
    """They have one partition."""

    silent = False
    end = 9

    def end_offsets(self, _partitions: Any) -> dict[int, int]:
        if self.silent:
            raise Retry("away")
        return {0: self.end}


class World:
    """A stream whose consumer stays at 5."""

    def __init__(self, time: FakeClock) -> None:
        self.time, self.brokers = time, Brokers()
        self.rows: Any = SimpleNamespace(in_hand=None, is_excused=False, offsets=OffsetTracker())
        app: Any = SimpleNamespace(topic=lambda *_, **__: None, agent=lambda *_, **__: lambda _: None)
        app.on_partitions_revoked = app.on_partitions_assigned = SimpleNamespace(connect=lambda *_, **__: None)
        topic: Any = SimpleNamespace(name="gitops.engine", partitions=1)
        reader: Any = self.brokers
        unused: Any = None
        self.stream = EngineStream(app, topic, reader, unused, unused, StallDetector(time))
        self.stream.connect_callbacks(self.rows, unused)

    async def look_for_long(self) -> str:
        for _ in range(3):
            await self.stream.check_progress({0})
            self.time.seconds += LONG
        return self.stream.stalled()


@pytest.fixture
def world(time: FakeClock) -> World:
    return World(time)


async def test_stream_when_its_consumer_stands_still_then_it_says_so(world: World) -> None:
    assert "partition 0" in await world.look_for_long()


async def test_stream_when_a_message_waits_for_others_then_it_may_take_its_time(world: World) -> None:
    world.rows.is_excused = True
    assert await world.look_for_long() == ""


async def test_stream_when_a_message_in_hand_never_ends_then_it_says_so(world: World) -> None:
    world.brokers.end, world.rows.in_hand = 0, TopicPartition("gitops.engine", 0)
    assert "partition 0" in await world.look_for_long()


async def test_stream_when_the_brokers_are_silent_then_nothing_is_concluded(world: World) -> None:
    world.brokers.silent = True
    assert await world.look_for_long() == ""


@pytest.mark.parametrize(("stalled", "ready"), [("", ""), ("nothing read", "nothing read")])
async def test_agent_when_its_consumer_stands_still_then_it_is_neither_ready_nor_healthy(
    stalled: str, ready: str
) -> None:
    stream: Any = SimpleNamespace(stalled=lambda: stalled, held_back=str)
    instances: Any = SimpleNamespace(not_ready=str)
    shutdown: Any = SimpleNamespace(reason=str)
    unused: Any = None
    agent = Agent(unused, stream, instances, unused, unused, shutdown, fleet=unused, cluster=unused)
    assert (agent.not_ready(), agent.unhealthy()) == (ready, ready)
