"""A server that a process cannot do without: when it counts as silent, when as back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from services.common.errors import Retry
from services.common.reachability import ANSWER_SECONDS, CALM_SECONDS, MOST_STRAIN, SILENT_SECONDS, Reachability
from tests.unit.fake_clock import FakeClock


@dataclass
class Server:
    """Answers at once or slowly, refuses, or says nothing."""

    mode: str = "answers"
    asked: int = 0
    clock: FakeClock = field(default_factory=FakeClock)
    silence: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self) -> None:
        self.asked += 1
        if self.mode == "refuses":
            raise Retry("connection refused")
        if self.mode == "hangs":
            await self.silence.wait()
        if self.mode == "is slow":
            await self.clock.sleep(3 * ANSWER_SECONDS)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.mark.parametrize("fault", ["refuses", "hangs"])
async def test_server_when_it_does_not_answer_for_long_then_it_is_silent(clock: FakeClock, fault: str) -> None:
    server = Server()
    waiting = asyncio.create_task(Reachability("it", server.ask, clock).wait_for_silence())
    await clock.until(lambda: server.asked >= 3)
    lost_at, server.mode = clock.time(), fault
    await clock.until(waiting.done)
    assert SILENT_SECONDS - 1 <= clock.time() - lost_at <= SILENT_SECONDS + 3


async def test_server_when_it_misses_one_question_then_it_is_not_silent(clock: FakeClock) -> None:
    server = Server()
    waiting = asyncio.create_task(Reachability("it", server.ask, clock).wait_for_silence())
    await clock.until(lambda: server.asked >= 1)
    server.mode = "refuses"
    await clock.until(lambda: server.asked >= 2)
    server.mode = "answers"
    await clock.until(lambda: server.asked >= 10)
    assert not waiting.done()
    waiting.cancel()


async def test_server_when_the_process_was_stopped_for_long_then_it_is_not_silent(clock: FakeClock) -> None:
    server = Server()
    waiting = asyncio.create_task(Reachability("it", server.ask, clock).wait_for_silence())
    await clock.until(lambda: server.asked >= 2)
    clock.seconds += 10 * SILENT_SECONDS
    await clock.until(lambda: server.asked >= 10)
    assert not waiting.done()
    server.mode = "hangs"
    await clock.until(lambda: server.asked >= 11)
    server.mode = "answers"
    clock.seconds += 10 * SILENT_SECONDS
    await clock.until(lambda: server.asked >= 20)
    assert not waiting.done()
    waiting.cancel()


async def test_server_when_it_answers_again_then_the_wait_ends(clock: FakeClock) -> None:
    server = Server("refuses")
    waiting = asyncio.create_task(Reachability("it", server.ask, clock).wait_for_answer())
    await clock.until(lambda: server.asked >= 3)
    assert not waiting.done()
    server.mode = "answers"
    await clock.until(waiting.done)


async def test_process_when_a_server_falls_silent_and_answers_then_it_leaves_and_joins_each_time(
    clock: FakeClock,
) -> None:
    server, done = Server(), list[str]()

    async def leave() -> None:
        done.append("left")

    async def join() -> None:
        done.append("joined")

    alternating = asyncio.create_task(Reachability("it", server.ask, clock).leave_while_silent(leave, join))
    for mode, expected in (
        ("hangs", ["left"]),
        ("answers", ["left", "joined"]),
        ("refuses", ["left", "joined", "left"]),
    ):
        server.mode = mode
        await clock.until(lambda expected=expected: done == expected)
    alternating.cancel()


@dataclass
class Member:
    """Of a group; when it left, by the clock."""

    clock: FakeClock
    left_at: list[float] = field(default_factory=list)
    joined: int = 0

    async def leave(self) -> None:
        self.left_at.append(self.clock.time())

    async def join(self) -> None:
        self.joined += 1


async def test_process_when_a_server_is_slow_to_all_then_it_leaves_once_until_the_server_was_calm_for_long(
    clock: FakeClock,
) -> None:
    server, member = Server("is slow", clock=clock), Member(clock)
    reachability = Reachability("it", server.ask, clock)
    alternating = asyncio.create_task(reachability.leave_while_silent(member.leave, member.join))
    await clock.until(lambda: clock.time() > 10 * CALM_SECONDS)
    assert (len(member.left_at), member.joined) == (1, 1)

    server.mode, calm_since = "answers", clock.time()
    await clock.until(lambda: clock.time() > calm_since + CALM_SECONDS + MOST_STRAIN * ANSWER_SECONDS)
    lost_at, server.mode = clock.time(), "hangs"
    await clock.until(lambda: len(member.left_at) == 2)
    assert clock.time() - lost_at <= SILENT_SECONDS + 3
    alternating.cancel()


async def test_process_when_a_server_refuses_again_and_again_then_it_leaves_as_soon_each_time(
    clock: FakeClock,
) -> None:
    server, member = Server(clock=clock), Member(clock)
    reachability = Reachability("it", server.ask, clock)
    alternating = asyncio.create_task(reachability.leave_while_silent(member.leave, member.join))
    for number in range(1, 5):
        lost_at, server.mode = clock.time(), "refuses"
        await clock.until(lambda number=number: len(member.left_at) == number)
        assert clock.time() - lost_at <= SILENT_SECONDS + 3
        server.mode = "answers"
        await clock.until(lambda number=number: member.joined == number)
    alternating.cancel()
