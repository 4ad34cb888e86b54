"""What taking over an instance with many rows costs, counted: linear in the rows, and in slices of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from services.agent.credentials import waiting_applications
from services.agent.objects import desired_objects as objects
from services.common.messages import EngineResource
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, repository_row
from tests.unit.fake_clock import settle

TURNS = 5000
PARSED_IN_ONE_TURN = 400


class Parsed:
    """How many manifests are parsed, and how many of them in one turn of the loop at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = self.most = self._seen = 0
        counting = SimpleNamespace(**{name: getattr(orjson, name) for name in dir(orjson) if not name.startswith("_")})
        counting.loads = self._loads
        monkeypatch.setattr(objects, "orjson", counting)

    def _loads(self, text: str) -> Any:
        self.total += 1
        return orjson.loads(text)

    def end_turn(self) -> None:
        self.most, self._seen = max(self.most, self.total - self._seen), self.total

    async def end_turns(self) -> None:
        while True:
            self.end_turn()
            await asyncio.sleep(0)


async def taken_over(driver: Driver, *rows: EngineResource, parsed: Parsed) -> None:
    driver.instance.start()
    await settle()
    parsed.end_turn()
    driver.instance.start_work(rows)
    parsed.end_turn()
    for _ in range(TURNS):
        await asyncio.sleep(0)
        parsed.end_turn()
        if driver.instance.pending == 0 and len(driver.cluster.names("Application")) == len(rows):
            return
    raise AssertionError("not taken over")


async def test_rows_when_there_are_many_at_takeover_then_each_turn_of_the_loop_parses_only_some(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = Parsed(monkeypatch)
    rows = [application_row(f"app-{number}", lane=f"lane-{number % 50}") for number in range(2000)]
    await taken_over(driver, *rows, parsed=parsed)
    assert parsed.most < PARSED_IN_ONE_TURN
    assert parsed.total < 10 * len(rows)


async def test_rows_when_compared_again_then_each_turn_of_the_loop_parses_only_some(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = Parsed(monkeypatch)
    rows = [application_row(f"app-{number}", lane=f"lane-{number % 50}") for number in range(2000)]
    await taken_over(driver, *rows, parsed=parsed)
    driver.instance._working = False  # a watch that misses it
    driver.cluster.remove("Application", "app-8")
    await settle()
    driver.instance._working = True
    parsed.end_turn()
    before, parsed.most = parsed.total, 0
    counting = asyncio.create_task(parsed.end_turns())
    await driver.clock.advance(310)
    counting.cancel()
    assert len(driver.cluster.names("Application")) == len(rows)
    assert parsed.most < PARSED_IN_ONE_TURN
    assert len(rows) <= parsed.total - before < 3 * len(rows)


def rows_that_wait(count: int) -> list[EngineResource]:
    """So many Secrets of one tenant, and an Application for each."""
    urls = [f"https://git.example.com/team-a/repository-{number}" for number in range(count)]
    secrets = [repository_row(f"secret-{number}", url) for number, url in enumerate(urls)]
    return secrets + [application_row(f"app-{number}", repoURL=url) for number, url in enumerate(urls)]


@pytest.mark.parametrize("count", [10, 100])
async def test_applications_when_each_waits_for_its_secret_then_each_is_looked_at_twice(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    counted: Counter[str] = Counter()

    def manifest_of(row: EngineResource) -> Any:
        counted["secrets parsed"] += 1
        return objects.manifest_of(row)

    def source_url(desired: Any) -> str:
        counted["applications looked at"] += 1
        return objects.source_url(desired)

    monkeypatch.setattr(waiting_applications, "manifest_of", manifest_of)
    monkeypatch.setattr(waiting_applications, "source_url", source_url)
    rows = rows_that_wait(count)
    for row in rows:
        if row.name.startswith("secret"):
            driver.checker.gates[row.name] = asyncio.Event()
    await driver.begin(*rows)
    for _ in range(count):
        await asyncio.sleep(0)
    assert driver.cluster.names("Application") == []
    for gate in driver.checker.gates.values():
        gate.set()
        await settle()
    assert len(driver.cluster.names("Application")) == count
    assert counted["secrets parsed"] <= count
    assert counted["applications looked at"] <= 3 * count
