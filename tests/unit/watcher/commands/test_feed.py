"""The feed against an API server that misbehaves and a broker that loses messages: the planner learns everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kubernetes import KubeClient, Rejected
from services.common.messages import ResourceChanged, ResourceGone, ResyncCompleted
from services.watcher.commands.bounded_producer import BoundedProducer
from services.watcher.commands.epochs import Epochs
from services.watcher.commands.feed import MAX_LOSSES, Feed
from services.watcher.commands.follow_session import FeedParts
from services.watcher.commands.namespaces import Namespaces
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.secrets import SecretTypes
from services.watcher.commands.throttling import RateLimiter
from services.watcher.commands.translation import Translator, spec_within, state_version
from services.watcher.followed_kinds import CUSTOM_KINDS, FollowedKind
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, answers, expires_between_pages, status
from tests.unit.kinds.review.kind import KIND as REVIEWS
from tests.unit.watcher.fakes import FakePublisher, PlainCodec
from tests.unit.watcher.manifests import SPEC

DEADLINE_SECONDS = 10
MAX_SECRET_BYTES = 1024
PARTITIONS = 3


DEPLOYMENTS, ENVIRONMENTS, _, SYNC_RUNS, *_ = CUSTOM_KINDS


def feed_of(kind: FollowedKind, kube: KubeClient, publisher: FakePublisher, **parts: Any) -> Feed:
    transport: Any = publisher
    codec: Any = PlainCodec()

    async def partitions() -> int:
        return PARTITIONS

    reader = ObjectReader(kube, partial(Backoff, first=0.001), grace_seconds=0.05)
    defaults: dict[str, Any] = {
        "count_partitions": partitions,
        "epochs": Epochs(0),
        "limiter": RateLimiter(1000, 1000),
        "list_limiter": RateLimiter(100_000, 100_000),
        "translate": Translator("local", kind.resource, spec_within(1024), kind.projection),
        "state_version": partial(state_version, projection=kind.projection),
        "types": SecretTypes(reader, MAX_SECRET_BYTES),
        "namespaces": Namespaces(reader),
    }
    of_feed = FeedParts(
        kube=kube,
        kind=kind,
        new_producer=lambda: BoundedProducer(transport, codec, 100),
        reader=reader,
        **defaults | parts,
    )
    return Feed(of_feed, delays=Backoff(first=0.001))


@pytest.fixture
def feed(kube: KubeClient, publisher: FakePublisher) -> Feed:
    return feed_of(DEPLOYMENTS, kube, publisher)


@asynccontextmanager
async def running(feed: Feed) -> AsyncIterator[None]:
    task = asyncio.create_task(feed.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the fakes signal nothing
            await asyncio.sleep(0.001)


def epochs(publisher: FakePublisher) -> list[int]:
    """Epochs declared complete, one entry per partition."""
    return [event.epoch for event in publisher.events if isinstance(event, ResyncCompleted)]


def told(publisher: FakePublisher) -> list[tuple[str, str]]:
    """What the planner was told of resources: which, and what."""
    names = {ResourceChanged: "changed", ResourceGone: "gone"}
    return [(event.name, names[type(event)]) for event in publisher.events if type(event) in names]


async def put(server: FakeApiServer, name: str, generation: int = 1, namespace: str = "team-a", **content: Any) -> None:
    """Create or change an object; ``metadata`` adds to what is ordinary."""
    meta = {"name": name, "uid": f"uid-{name}", "generation": generation, "namespace": namespace}
    await server.put(name, **{"spec": SPEC} | content | {"metadata": meta | content.get("metadata", {})})


async def test_list_when_complete_then_markers_follow_once_everything_listed_is_acknowledged(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    await put(server, "a")
    publisher.holding = True
    async with running(feed):
        await until(lambda: told(publisher) == [("a", "changed")])
        assert not feed.listed
        assert epochs(publisher) == []
        publisher.acknowledge()
        await until(lambda: feed.listed)
    assert len(epochs(publisher)) == PARTITIONS
    assert len(set(epochs(publisher))) == 1


async def test_feed_when_markers_are_unacknowledged_then_it_is_not_ready(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    publisher.holding = True
    async with running(feed):
        await until(lambda: len(epochs(publisher)) == PARTITIONS)
        assert not feed.listed
        publisher.acknowledge()
        await until(lambda: feed.listed)


async def test_list_when_it_starts_over_then_only_the_complete_one_is_declared(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    for number in range(501):
        await put(server, f"object-{number}")
    server.list_faults.append(expires_between_pages())
    async with running(feed):
        await until(lambda: feed.listed)
    assert set(epochs(publisher)) == {publisher.events[-1].epoch}
    last = [event for event in publisher.events if getattr(event, "epoch", 0) == epochs(publisher)[0]]
    assert len(last) == 501 + PARTITIONS, "an epoch that is declared holds every object"


async def test_command_when_lost_during_the_list_then_nothing_is_declared_before_all_was_sent_again(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    await put(server, "a")
    publisher.holding = True
    async with running(feed):
        await until(lambda: len(publisher.sent) == 1)
        publisher.lose(0)
        publisher.holding = False
        await until(lambda: feed.listed)
    assert told(publisher) == [("a", "changed"), ("a", "changed")]
    first, second = (event.epoch for event in publisher.events[:2])
    assert first < second
    assert set(epochs(publisher)) == {second}


async def test_command_when_lost_while_the_watch_is_silent_then_everything_is_sent_again(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    await put(server, "a")
    async with running(feed):
        await until(lambda: feed.listed)
        publisher.holding = True
        await put(server, "b")
        await until(lambda: ("b", "changed") in told(publisher))
        publisher.lose(-1)
        publisher.holding = False
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
    assert told(publisher).count(("b", "changed")) == 2
    assert told(publisher).count(("a", "changed")) == 2


async def test_kafka_when_it_takes_nothing_again_and_again_then_the_process_gives_up(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    await put(server, "a")
    publisher.holding = True
    running_ = asyncio.create_task(feed.run())
    for number in range(MAX_LOSSES):
        await until(lambda number=number: len(publisher.sent) == number + 1)  # type: ignore[misc]
        publisher.lose(number)
    with pytest.raises(Unavailable, match="takes no commands"):
        await running_


async def test_partitions_when_kafka_does_not_tell_them_for_long_then_nothing_was_lost_and_the_list_is_completed(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    silences = iter([Retry("Kafka does not answer")] * MAX_LOSSES)

    async def partitions() -> int:
        if (silence := next(silences, None)) is not None:
            raise silence
        return PARTITIONS

    await put(server, "a")
    feed = feed_of(DEPLOYMENTS, kube, publisher, count_partitions=partitions)
    async with running(feed):
        await until(lambda: feed.listed)
    assert told(publisher) == [("a", "changed")]
    assert len(epochs(publisher)) == PARTITIONS


async def test_changes_when_only_our_status_writes_made_them_then_they_are_not_sent(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    await put(server, "a")
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "a", status={"health": "Healthy"})
        await put(server, "b")
        await until(lambda: ("b", "changed") in told(publisher))
        await server.delete("a")
        await until(lambda: ("a", "gone") in told(publisher))
        await put(server, "a")
        await until(lambda: told(publisher)[-1] == ("a", "changed"))
    assert told(publisher) == [("a", "changed"), ("b", "changed"), ("a", "gone"), ("a", "changed")]


async def test_change_when_of_a_declared_member_of_the_status_then_it_is_sent_and_others_are_not(
    server: FakeApiServer, publisher: FakePublisher, kube: KubeClient
) -> None:
    feed = feed_of(replace(DEPLOYMENTS, projection=REVIEWS.projection), kube, publisher)
    await put(server, "a")
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "a", status={"verdict": {"outcome": "yes"}})
        await until(lambda: len(told(publisher)) == 2)
        await put(server, "a", status={"verdict": {"outcome": "yes"}, "conditions": []})
        await put(server, "b")
        await until(lambda: ("b", "changed") in told(publisher))
    sent = [event for event in publisher.events if isinstance(event, ResourceChanged) and event.name == "a"]
    assert [event.status for event in sent] == ["{}", '{"verdict":{"outcome":"yes"}}']


async def test_echo_when_a_new_list_shows_it_then_it_is_sent_as_the_sweep_needs_it(
    server: FakeApiServer, publisher: FakePublisher, feed: Feed
) -> None:
    await put(server, "a")
    server.watch_faults.append(answers(410, "Expired"))
    async with running(feed):
        await until(lambda: len(epochs(publisher)) == 2 * PARTITIONS)
    assert told(publisher) == [("a", "changed")] * 2
    assert epochs(publisher)[0] < epochs(publisher)[-1]


async def test_api_server_when_it_cannot_watch_then_the_feed_ends(server: FakeApiServer, feed: Feed) -> None:
    server.watch_faults.append(answers(405, "MethodNotAllowed", "the server does not allow this method"))
    with pytest.raises(Rejected, match="does not allow"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await feed.run()


def restores(workspace: str) -> float | None:
    labels = {"service": "watcher", "workspace": workspace, "kind": DEPLOYMENTS.name}
    return REGISTRY.get_sample_value("gitops_api_server_restores_total", labels)


async def test_api_server_when_it_was_restored_then_that_is_counted_from_zero_on(
    kube: KubeClient, server: FakeApiServer, publisher: FakePublisher
) -> None:
    feed = feed_of(DEPLOYMENTS, kube, publisher, translate=Translator("restored", DEPLOYMENTS.resource, spec_within(9)))
    assert restores("restored") == 0
    gate = asyncio.Event()

    async def breaks(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        await gate.wait()
        return status(410, "Expired")

    server.watch_faults.append(breaks)
    async with running(feed):
        await until(lambda: feed.listed)
        server.version, server.oldest = 50, 50
        gate.set()
        await until(lambda: restores("restored") == 1)
