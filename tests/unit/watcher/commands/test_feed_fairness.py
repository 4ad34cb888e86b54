"""What a feed does with a tenant that changes too much, and with kinds that have rules of their own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from services.common.kubernetes import KubeClient
from services.common.kubernetes.client import PAGE
from services.common.messages import ResourceChanged
from services.common.times import rfc3339
from services.watcher.commands.epochs import Epochs
from services.watcher.commands.throttling import RateLimiter
from services.watcher.followed_kinds import CUSTOM_KINDS
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, Fault, error_event, page
from tests.unit.watcher.commands.test_feed import PARTITIONS, epochs, feed_of, put, running, told, until
from tests.unit.watcher.fakes import FakePublisher

DEPLOYMENTS, ENVIRONMENTS, _, SYNC_RUNS, *_ = CUSTOM_KINDS
NOTHING_FOR_NOW = 0.001
"""Changes per second, so few that a test sees none."""


def slow_streams(*, events: int, then: bytes) -> Fault:
    """Send that many events one by one, and after some milliseconds what ends the watch."""

    async def fault(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        response = await server.open(request)
        since = int(request.query["resourceVersion"])
        async with server._changed:
            await server._changed.wait_for(lambda: server._closing or len(server.after(since)) >= events)
        for entry in server.after(since):
            await response.write(entry.line)
            await asyncio.sleep(0.001)
        await response.write(then)
        return response

    return fault


def changes(publisher: FakePublisher) -> list[ResourceChanged]:
    return [event for event in publisher.events if isinstance(event, ResourceChanged)]


async def test_list_when_one_tenant_has_most_of_it_then_the_others_are_sent_in_turn(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for number in range(300):
        await put(server, f"busy-{number}", namespace="busy")
    await put(server, "quiet", namespace="quiet")
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(NOTHING_FOR_NOW, 1))
    async with running(feed):
        await until(lambda: feed.listed)
    assert ("quiet", "changed") in told(publisher)[:2]
    assert len(told(publisher)) == 301


async def test_tenant_when_beyond_its_rate_limit_then_others_are_sent_meanwhile(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(NOTHING_FOR_NOW, 2))
    async with running(feed):
        await until(lambda: feed.listed)
        for generation in range(1, 50):
            await put(server, "busy", generation, namespace="busy")
        await put(server, "quiet", namespace="quiet")
        await until(lambda: ("quiet", "changed") in told(publisher))
    assert told(publisher) == [("busy", "changed")] * 2 + [("quiet", "changed")]
    assert changes(publisher)[-1].held_back_ms == 0


async def test_changes_when_held_back_as_a_list_begins_then_they_are_sent_with_the_list(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    server.watch_faults.append(slow_streams(events=50, then=error_event(410, "Expired")))
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(NOTHING_FOR_NOW, 2))
    async with running(feed):
        await until(lambda: feed.listed)
        for generation in range(1, 51):
            await put(server, "busy", generation)
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
    sent = changes(publisher)
    assert [event.generation for event in sent] == [1, 2, 50]
    assert sent[1].epoch < sent[2].epoch


async def test_removal_when_held_back_as_a_list_begins_then_it_is_told_before_the_list_counts_as_complete(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    await put(server, "a")
    server.watch_faults.append(slow_streams(events=2, then=error_event(410, "Expired")))
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(NOTHING_FOR_NOW, 1))
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "b")
        await server.delete("a")
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
    assert told(publisher) == [("a", "changed"), ("b", "changed"), ("a", "gone"), ("b", "changed")]


async def test_change_when_a_long_list_is_being_read_then_it_is_sent_before_the_list_is_complete(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    gate = asyncio.Event()
    server.list_faults.extend([page(), page(gate)])
    for number in range(PAGE + 1):
        await put(server, f"object-{number:03}")
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: bool(server.watched_from))
        await put(server, "new")
        await put(server, f"object-{PAGE:03}", 2)
        await until(lambda: len(told(publisher)) == 2)
        gate.set()
        await until(lambda: feed.listed)
    first, second, *others = changes(publisher)
    assert [(first.name, first.generation), (second.name, second.generation)] == [("new", 1), (f"object-{PAGE:03}", 2)]
    assert sorted(event.name for event in others) == [f"object-{number:03}" for number in range(PAGE)]
    assert {event.epoch for event in changes(publisher)} == set(epochs(publisher)), "or they would be swept"


async def test_list_when_some_of_it_changed_while_nobody_watched_then_that_goes_first(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    old, later = "2026-05-04T12:00:00Z", "2026-05-04T12:30:00Z"
    sent_until = int(datetime.fromisoformat("2026-05-04T12:15:00Z").timestamp() * 1000)
    written, shown = {"time": later}, {"time": later, "subresource": "status"}
    for number in range(100):
        await put(server, f"old-{number}", metadata={"creationTimestamp": old, "managedFields": [shown]})
    await put(server, "created", metadata={"creationTimestamp": later})
    await put(server, "edited", metadata={"creationTimestamp": old, "managedFields": [shown, written]})
    await put(server, "deleted", metadata={"creationTimestamp": old, "deletionTimestamp": later})
    feed = feed_of(DEPLOYMENTS, kube, publisher, epochs=Epochs(sent_until))
    async with running(feed):
        await until(lambda: feed.listed)
    assert {name for name, _ in told(publisher)[:3]} == {"created", "edited", "deleted"}
    assert len(told(publisher)) == 103


async def test_list_when_history_was_lost_then_what_changed_of_late_goes_first(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    server.watch_faults.append(slow_streams(events=1, then=error_event(410, "Expired")))
    for number in range(100):
        await put(server, f"old-{number}", metadata={"creationTimestamp": "2026-05-04T12:00:00Z"})
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "seen", metadata={"creationTimestamp": rfc3339(datetime.now(UTC))})
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
    assert told(publisher)[100:102] == [("seen", "changed")] * 2
    assert len(told(publisher)) == 202


async def test_removal_when_a_long_list_is_being_read_then_it_is_told_and_the_list_does_not_bring_it_back(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    gate = asyncio.Event()
    server.list_faults.extend([page(), page(gate)])
    for number in range(PAGE + 1):
        await put(server, f"object-{number:03}")
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: bool(server.watched_from))
        await server.delete(f"object-{PAGE:03}")
        await until(lambda: told(publisher) == [(f"object-{PAGE:03}", "gone")])
        gate.set()
        await until(lambda: feed.listed)
    assert (f"object-{PAGE:03}", "changed") not in told(publisher)


async def test_resource_when_it_comes_and_goes_while_held_back_then_nothing_is_said_of_it(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(1, 1))
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "first")
        await until(lambda: told(publisher) == [("first", "changed")])
        await put(server, "brief")
        await server.delete("brief")
        await put(server, "last")
        await until(lambda: ("last", "changed") in told(publisher))
    assert told(publisher) == [("first", "changed"), ("last", "changed")]


async def test_removal_when_held_back_then_it_is_sent_once_the_tenant_may(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = feed_of(DEPLOYMENTS, kube, publisher, limiter=RateLimiter(50, 1))
    await put(server, "a")
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "other")
        await put(server, "a", 2)
        await server.delete("a")
        await until(lambda: ("a", "gone") in told(publisher))
    assert told(publisher)[-1] == ("a", "gone")


async def test_sync_runs_when_they_come_and_go_while_held_back_then_neither_is_told_nor_kept(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = feed_of(SYNC_RUNS, kube, publisher, limiter=RateLimiter(5, 1))
    async with running(feed):
        await until(lambda: feed.listed)
        for name in ("told", "a", "b", "c"):
            await put(server, name)
            if name == "told":
                await until(lambda: told(publisher) == [("told", "changed")])
            await server.delete(name)
        await put(server, "last")
        await until(lambda: ("last", "changed") in told(publisher))
    assert told(publisher) == [("told", "changed"), ("told", "gone"), ("last", "changed")]


async def test_change_when_a_long_list_is_going_out_then_another_tenants_is_sent_meanwhile(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for number in range(300):
        await put(server, f"busy-{number}", namespace="busy", spec={"credentialsSecret": f"secret-{number}"})
    server.get_seconds = 0.02
    feed = feed_of(ENVIRONMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: len(changes(publisher)) > 0)
        await put(server, "quiet", namespace="quiet")
        await until(lambda: ("quiet", "changed") in told(publisher))
        assert len(told(publisher)) < 200
        assert not feed.listed
        await until(lambda: feed.listed)
    assert len(told(publisher)) == 301
    assert len(epochs(publisher)) == PARTITIONS


async def test_removal_when_of_a_list_that_is_going_out_then_it_is_told_as_the_planner_may_know_the_resource(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for number in range(100):
        await put(server, f"env-{number}", spec={"credentialsSecret": f"secret-{number}"})
    server.get_seconds = 0.02
    feed = feed_of(ENVIRONMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: len(changes(publisher)) > 0)
        await server.delete("env-99")
        await until(lambda: feed.listed)
    assert ("env-99", "gone") in told(publisher)
    assert ("env-99", "changed") not in told(publisher)


async def test_feed_when_all_has_to_be_said_anew_then_it_lists_again_without_counting_a_loss(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    outdated: list[asyncio.Event] = []

    async def until_outdated() -> None:
        outdated.append(asyncio.Event())
        await outdated[-1].wait()

    await put(server, "a")
    feed: Any = feed_of(DEPLOYMENTS, kube, publisher, until_outdated=until_outdated)
    async with running(feed):
        for times in range(1, 6):
            await until(lambda times=times: len(epochs(publisher)) == times * PARTITIONS)  # type: ignore[misc]
            outdated[-1].set()
        await until(lambda: len(epochs(publisher)) == 6 * PARTITIONS)
    assert told(publisher) == [("a", "changed")] * 6
