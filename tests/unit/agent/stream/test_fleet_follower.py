"""How an agent keeps up with the fleet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.agent.stream.fleet_follower import FleetFollower
from services.common.errors import Retry
from services.common.kafka import FLEET
from services.common.kafka.topic_follower import FOLLOW_SECONDS
from services.common.messages import FleetInstance
from tests.unit.agent.instances_of_fleet import ELSEWHERE, fleet_of, instance_row
from tests.unit.fake_clock import FakeClock, settle


class FakeReader:
    """A topic that is read without a thread."""

    topic = FLEET

    def __init__(self) -> None:
        self.news: list[FleetInstance] = []
        self.trouble: list[Exception] = []
        self.reads = 0

    def read_news(self) -> list[FleetInstance]:
        self.reads += 1
        if self.trouble:
            raise self.trouble.pop(0)
        news, self.news = self.news, []
        return news


class Rig:
    """A follower of one instance's fleet."""

    def __init__(self) -> None:
        self.clock, self.reader, self.fleet = FakeClock(), FakeReader(), fleet_of("one")
        self.follower = FleetFollower(self.fleet, self.reader, self.clock)
        self.changes: list[dict[str, str]] = []
        self.follower.call_on_change(lambda: self.changes.append(dict(self.fleet.namespaces)))


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    async def at_once(call: Any) -> Any:
        return call()

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    return Rig()


async def test_fleet_when_an_instance_is_added_then_it_is_told_within_a_moment(rig: Rig) -> None:
    following = asyncio.create_task(rig.follower.follow())
    await settle()
    rig.reader.news = [instance_row("two")]
    await rig.clock.advance(FOLLOW_SECONDS)
    assert rig.changes == [{"one": "one", "two": "two"}]
    await rig.clock.advance(10 * FOLLOW_SECONDS)
    assert len(rig.changes) == 1
    following.cancel()


async def test_fleet_when_an_instance_of_another_cluster_is_added_then_it_is_known_and_nobody_is_called(
    rig: Rig,
) -> None:
    rig.reader.news = [instance_row("theirs", engine_cluster=ELSEWHERE)]
    await rig.follower.look_for("theirs")
    assert rig.fleet.is_elsewhere("theirs")
    assert rig.changes == []


async def test_instance_when_it_is_known_then_nothing_is_read(rig: Rig) -> None:
    await rig.follower.look_for("one")
    assert rig.reader.reads == 0


async def test_instance_when_nobody_knows_it_then_the_topic_is_read_to_its_end_once(rig: Rig) -> None:
    await rig.follower.look_for("unheard-of")
    assert (rig.reader.reads, rig.fleet.knows("unheard-of")) == (1, False)


async def test_brokers_when_they_do_not_answer_then_they_are_waited_for(rig: Rig) -> None:
    rig.reader.trouble, rig.reader.news = [Retry("away"), Retry("away")], [instance_row("two")]
    looking = asyncio.create_task(rig.follower.look_for("two"))
    await settle()
    assert not looking.done()
    await rig.clock.until(looking.done)
    assert rig.fleet.knows("two")
