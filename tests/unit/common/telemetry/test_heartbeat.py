"""An event loop's sign of life, as the probe on its own thread sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from services.common.telemetry import Heartbeat, Probes
from services.common.telemetry.probes import SILENT_SECONDS
from tests.unit.fake_clock import FakeClock


@pytest.fixture
def heartbeat(time: FakeClock) -> Heartbeat:
    return Heartbeat(time)


@pytest.fixture
def healthz(heartbeat: Heartbeat) -> Iterator[str]:
    probes = Probes("agent", alive=heartbeat.silence, ready=str)
    yield f"http://127.0.0.1:{probes.start('127.0.0.1', 0)}/healthz"
    probes.stop()


def status(url: str) -> int:
    return httpx2.get(url).status_code


def test_healthz_when_the_loop_does_not_come_round_then_it_says_so_on_its_own_thread(
    time: FakeClock, healthz: str
) -> None:
    assert status(healthz) == 200
    time.seconds += SILENT_SECONDS + 1
    assert status(healthz) == 503


def test_silence_when_it_is_as_long_as_a_large_batch_then_it_is_none(time: FakeClock, heartbeat: Heartbeat) -> None:
    time.seconds += SILENT_SECONDS - 1
    assert heartbeat.silence() == ""


async def test_silence_when_the_loop_comes_round_again_then_it_is_over(time: FakeClock, heartbeat: Heartbeat) -> None:
    time.seconds += SILENT_SECONDS + 1
    before = heartbeat.silence()
    beating = asyncio.create_task(heartbeat.keep_beating())
    await asyncio.sleep(0)
    beating.cancel()
    assert (before, heartbeat.silence()) == ("the loop has not come round for 16 s", "")
