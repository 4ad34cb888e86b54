"""A server that a process cannot do without: when it counts as silent, when as back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from services.common.errors import Retry
from services.common.reachability import SILENT_SECONDS, Reachability
from tests.unit.fake_clock import FakeClock


@dataclass
class Server:
    """Answers, refuses, or says nothing."""

    mode: str = "answers"
    asked: int = 0
    silence: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self) -> None:
        self.asked += 1
        if self.mode == "refuses":
            raise Retry("connection refused")
        if self.mode == "hangs":
            await self.silence.wait()


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
