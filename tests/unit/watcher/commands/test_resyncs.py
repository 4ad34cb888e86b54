"""When kinds are listed anew though nothing asks for it, by a clock that is turned by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from services.common.kubernetes import Deleted, KubeClient, Reflection
from services.watcher.commands.resyncs import JITTER, Resyncs
from services.watcher.commands.throttling import RateLimiter
from services.watcher.followed_kinds import CUSTOM_KINDS
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer
from tests.unit.fake_clock import FakeClock, settle
from tests.unit.watcher.commands.test_feed import PARTITIONS, epochs, feed_of, put, running, told, until
from tests.unit.watcher.fakes import FakePublisher

DEPLOYMENTS, *_ = CUSTOM_KINDS
INTERVAL = timedelta(days=3)


@dataclass
class FakeFeed:
    """Lists in no time, unless it hangs."""

    clock: FakeClock
    complete_epoch: int = 0
    is_complete: bool = True
    listed_at: list[float] = field(default_factory=list)

    def list_anew(self) -> None:
        self.listed_at.append(self.clock.seconds)
        self.complete_epoch = int(self.clock.seconds * 1000)


@asynccontextmanager
async def in_turn(feeds: Sequence[FakeFeed], clock: FakeClock, chance: Callable[[], float]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(Resyncs(feeds, INTERVAL, clock, chance).run())
    await settle()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_kinds_when_time_passes_then_each_is_listed_once_in_the_interval_and_no_two_at_a_time() -> None:
    clock = FakeClock()
    feeds = [FakeFeed(clock) for _ in range(5)]
    async with in_turn(feeds, clock, lambda: 0.0):
        await clock.advance(2 * INTERVAL.total_seconds())
    turns = sorted(at for feed in feeds for at in feed.listed_at)
    assert [len(feed.listed_at) for feed in feeds] == [2] * 5
    assert {later - former for former, later in itertools.pairwise(turns)} == {INTERVAL.total_seconds() / 5}


async def test_kinds_when_chance_shortens_turns_then_none_is_ever_older_than_the_interval() -> None:
    clock, chances = FakeClock(), iter([0.0, 1.0, 0.5, 0.9, 0.1] * 20)
    feeds = [FakeFeed(clock) for _ in range(3)]
    async with in_turn(feeds, clock, lambda: next(chances)):
        await clock.advance(4 * INTERVAL.total_seconds())
    for feed in feeds:
        lists = [0.0, *feed.listed_at]
        ages = [later - former for former, later in itertools.pairwise(lists)]
        assert max(ages) <= INTERVAL.total_seconds()
        assert min(ages[1:]) >= INTERVAL.total_seconds() * (1 - JITTER)


async def test_kind_when_its_list_is_still_being_sent_then_another_is_listed() -> None:
    clock = FakeClock()
    slow, other = FakeFeed(clock, complete_epoch=1, is_complete=False), FakeFeed(clock, complete_epoch=2)
    async with in_turn([slow, other], clock, lambda: 0.0):
        await clock.advance(INTERVAL.total_seconds())
    assert (len(slow.listed_at), len(other.listed_at)) == (0, 2)


async def test_feed_when_asked_to_list_anew_then_all_is_sent_under_a_newer_epoch_and_changes_go_on(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put(server, "a")
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.is_complete)
        first = feed.complete_epoch
        feed.list_anew()
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
        await until(lambda: feed.is_complete)
        assert feed.complete_epoch > first
        await put(server, "a", 2)
        await until(lambda: len(told(publisher)) == 3)
    assert told(publisher) == [("a", "changed")] * 3


async def test_removal_when_it_waits_as_a_kind_is_listed_anew_then_it_is_told_and_not_left_to_the_sweep(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put(server, "a")
    seen: list[Reflection] = []
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(0.001, 1), observe=seen.append)
    async with running(feed):
        await until(lambda: feed.is_complete)
        await put(server, "b")
        await server.delete("a")
        await until(lambda: any(isinstance(event, Deleted) for event in seen))
        assert ("a", "gone") not in told(publisher)
        feed.list_anew()
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
    assert ("a", "gone") in told(publisher)
