from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import AsyncMock

import pytest

from services.common.errors import NoPermission, Retry, Unavailable
from services.common.kubernetes import Rejected
from services.watcher.commands.epochs import Epochs
from services.watcher.followed_kinds import CUSTOM_KINDS
from services.watcher.leadership import Leadership, lease_name

DEADLINE_SECONDS = 30
DEPLOYMENTS = CUSTOM_KINDS[0]


@dataclass
class FakeFeed:
    listed: bool = False
    running: bool = False
    fails: Exception | None = None
    kind: Any = DEPLOYMENTS

    async def run(self) -> None:
        self.running = True
        if self.fails:
            raise self.fails
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


@dataclass
class FakeElection:
    """Leads when told to."""

    name: str = "lease"
    leading: bool = False
    elected: asyncio.Event = field(default_factory=asyncio.Event)
    fails: Exception | None = None

    async def run(self, work: Callable[[], Any]) -> None:
        if self.fails:
            raise self.fails
        await self.elected.wait()
        self.leading = True
        await work()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the fakes signal nothing
            await asyncio.sleep(0)


def leadership(*feeds: FakeFeed, election: Any = None, newest: int | list[Any] = 0) -> Leadership:
    answers: list[Any] = newest if isinstance(newest, list) else [newest]

    async def newest_command() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    several: Any = list(feeds)
    return Leadership(several, Epochs(0), newest_command, election)


async def test_watcher_when_it_is_the_only_one_then_it_follows_at_once() -> None:
    feed = FakeFeed()
    running = asyncio.ensure_future(leadership(feed).run())
    await until(lambda: feed.running)
    running.cancel()
    await asyncio.wait([running])
    assert not feed.running


async def test_standby_when_not_elected_then_it_is_ready_and_follows_nothing() -> None:
    feed, election = FakeFeed(), FakeElection()
    leading = leadership(feed, election=election, newest=5000)
    running = asyncio.ensure_future(leading.run())
    await asyncio.sleep(0)
    assert (leading.is_standby, leading.unready_because(), feed.running) == (True, "", False)
    election.elected.set()
    await until(lambda: feed.running)
    assert not leading.is_standby
    assert leading.unready_because() == "gitopsdeployments not listed yet"
    feed.listed = True
    assert leading.unready_because() == ""
    running.cancel()


async def test_leader_when_elected_then_its_epochs_are_beyond_all_before_by_whatever_clock() -> None:
    feed = FakeFeed()
    leading = leadership(feed, newest=[Retry("Kafka is away"), 9_000_000])
    running = asyncio.ensure_future(leading.run())
    await until(lambda: feed.running)
    assert leading.epochs.next_epoch(5) == 9_000_001
    running.cancel()


async def test_leader_when_kafka_does_not_answer_it_then_it_follows_no_more() -> None:
    feed, election, silent = FakeFeed(), FakeElection(), asyncio.Event()
    leading = leadership(feed, election=election)
    leading.until_commands_fail = silent.wait  # type: ignore[assignment]
    election.elected.set()
    running = asyncio.ensure_future(leading.run())
    await until(lambda: feed.running)
    silent.set()
    await running
    assert not feed.running


async def test_watcher_when_it_is_the_only_one_then_it_goes_on_though_kafka_does_not_answer() -> None:
    feed = FakeFeed()
    leading = leadership(feed)
    leading.until_commands_fail = AsyncMock()
    running = asyncio.ensure_future(leading.run())
    await until(lambda: feed.running)
    leading.until_commands_fail.assert_not_called()
    running.cancel()


async def test_feeds_when_one_fails_then_all_end_and_the_error_is_told() -> None:
    good, bad = FakeFeed(), FakeFeed(fails=Unavailable("Kafka takes nothing"))
    with pytest.raises(Unavailable, match="Kafka takes nothing"):
        await leadership(good, bad).run()
    assert not good.running


@pytest.mark.parametrize("refused", ["feed", "lease"])
async def test_leadership_when_something_is_forbidden_then_it_is_a_missing_permission(refused: str) -> None:
    error = Rejected("forbidden", 403)
    feed = FakeFeed(fails=error if refused == "feed" else None)
    election = FakeElection(fails=error) if refused == "lease" else None
    with pytest.raises(NoPermission, match=refused if refused == "lease" else "gitopsdeployments"):
        await leadership(feed, election=election).run()


WORKSPACES = ["local", "a-b", "a_b", "a.b", "A-b", "A-B", "a-B", "a..b", "x" * 128, "X" * 128]


def test_lease_when_any_workspaces_need_one_then_its_name_is_valid_and_nobody_elses() -> None:
    names = {workspace: lease_name(workspace) for workspace in WORKSPACES}
    label = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    for name in names.values():
        assert re.fullmatch(rf"{label}(\.{label})*", name)
        assert len(name) <= 253
    assert len(set(names.values())) == len(WORKSPACES)
    assert names["local"] == "gitops-watcher-local"
    assert lease_name(names["a_b"].removeprefix("gitops-watcher.")) != names["a_b"]


async def test_lists_in_turn_when_not_elected_then_none_is_asked_for_and_they_end_with_the_lead() -> None:
    turns: list[str] = []

    async def list_in_turn() -> None:
        turns.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            turns.append("ended")

    election = FakeElection()
    leading = leadership(FakeFeed(), election=election)
    leading.list_in_turn = list_in_turn
    running = asyncio.ensure_future(leading.run())
    await asyncio.sleep(0)
    assert turns == []
    election.elected.set()
    await until(lambda: turns == ["begun"])
    running.cancel()
    await asyncio.wait([running])
    assert turns == ["begun", "ended"]
