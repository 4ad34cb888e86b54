"""When somebody who waits is content, and when not any more."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.checker import convergence
from chaos.checker.convergence import Patience, await_convergence
from chaos.checker.difference import Difference
from chaos.checker.judge import Judgement
from chaos.checker.world import World
from chaos.record import Record

WRONG = [Difference("missing", "Application a", "it is not there", "chaos-000")]
NOTHING: Any = None


class Looks:
    """What differs at each look, of which there is one a second; the last of them stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: list[Difference]) -> None:
        self.seconds, self._found = 0, list(found)
        monkeypatch.setattr(convergence, "read_world", self._read)
        monkeypatch.setattr(convergence, "judge", self._judge)
        monkeypatch.setattr(convergence.time, "monotonic", lambda: float(self.seconds))
        monkeypatch.setattr(convergence.asyncio, "sleep", self._sleep)

    async def _read(self, *_: object) -> World:
        return World()

    def _judge(self, *_: object) -> Judgement:
        return Judgement(self._found[min(self.seconds, len(self._found) - 1)], 0, 0, 0)

    async def _sleep(self, seconds: float) -> None:
        self.seconds += round(seconds)


async def test_run_when_nothing_differs_then_it_has_converged_once_that_stays_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks(monkeypatch, WRONG, WRONG, [])
    verdict = await await_convergence(NOTHING, NOTHING, Record(), Patience(deadline=60, steady=10))
    assert (verdict.seconds, verdict.differences, looks.seconds) == (2, [], 12)


async def test_run_when_something_differs_once_more_then_what_was_right_before_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Looks(monkeypatch, WRONG, *[[]] * 9, WRONG, [])
    verdict = await await_convergence(NOTHING, NOTHING, Record(), Patience(deadline=60, steady=10))
    assert (verdict.seconds, verdict.differences) == (11, [])


async def test_run_when_less_and_less_differs_then_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Looks(monkeypatch, *[WRONG * 3] * 15, *[WRONG * 2] * 15, *[WRONG] * 15, [])
    verdict = await await_convergence(NOTHING, NOTHING, Record(), Patience(deadline=20, steady=10))
    assert (verdict.seconds, verdict.differences) == (45, [])


async def test_run_when_what_differs_comes_and_goes_then_it_is_not_waited_for_any_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Looks(monkeypatch, *[WRONG, WRONG * 2] * 30)
    verdict = await await_convergence(NOTHING, NOTHING, Record(), Patience(deadline=20, steady=10))
    assert (verdict.seconds, verdict.differences) == (21, WRONG * 2)


async def test_run_when_something_differs_after_the_deadline_then_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Looks(monkeypatch, WRONG)
    verdict = await await_convergence(NOTHING, NOTHING, Record(), Patience(deadline=20, steady=10))
    assert (verdict.seconds, verdict.differences) == (21, WRONG)
