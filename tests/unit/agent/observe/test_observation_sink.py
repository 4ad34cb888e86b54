"""What an agent observes goes out as long as no other agent can have its instances."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from services.agent.observe.observation_sink import AGAIN_SECONDS, ObservationSink
from services.common.kafka import GroupSession
from services.common.messages import Removed
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import FakeClock, settle

TIMEOUT_SECONDS = 10.0


class Rig:
    """A sink, and what becomes of what it is given."""

    def __init__(self) -> None:
        self.clock, self.sent, self.delivered = FakeClock(), list[bytes | None](), list[bool]()
        self.session = GroupSession(TIMEOUT_SECONDS, self.clock)
        publisher: Any = SimpleNamespace(send_message=self._send_message)
        codec: Any = SimpleNamespace(encode_message=lambda message: message.observed_at.isoformat().encode())
        self.sink = ObservationSink(publisher, codec, "observations", self.clock, self.session.require_membership)

    def _send_message(self, _topic: str, _key: bytes, value: bytes, _headers: object) -> Future[int]:
        self.sent.append(value)
        arrived: Future[int] = Future()
        arrived.set_result(0)
        return arrived

    async def observe(self) -> None:
        self.sink.send_observation(application_row("web"), Removed(forced=False), self.delivered.append)
        await settle()


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_observation_when_we_are_a_member_of_the_group_then_it_is_sent(rig: Rig) -> None:
    rig.session.confirm_membership(rig.clock.time())
    await rig.observe()
    assert (len(rig.sent), rig.delivered) == (1, [True])


async def test_observation_when_another_may_have_our_instances_then_it_is_not_sent_and_is_told_to_be_lost(
    rig: Rig,
) -> None:
    rig.session.confirm_membership(rig.clock.time())
    await rig.clock.advance(TIMEOUT_SECONDS)
    await rig.observe()
    assert (rig.sent, rig.delivered) == ([], [])
    await rig.clock.advance(AGAIN_SECONDS)
    assert (rig.sent, rig.delivered) == ([], [False])


async def test_observation_when_membership_is_confirmed_again_then_it_is_sent(rig: Rig) -> None:
    await rig.clock.advance(TIMEOUT_SECONDS)
    rig.session.confirm_membership(rig.clock.time())
    await rig.observe()
    assert rig.delivered == [True]
