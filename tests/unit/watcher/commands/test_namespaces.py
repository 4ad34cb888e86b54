"""Which namespace of its name a resource is in, as the planner is told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from services.common.kubernetes import (
    Changed,
    Deleted,
    KubeClient,
    ListStarted,
    Manifest,
    Reflection,
    Seen,
)
from services.common.messages import ResourceChanged
from services.watcher.commands.namespaces import INFERENCE_COUNTS_FOR_SECONDS, Namespace, NamespaceInference, Namespaces
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.translation import Translator
from services.watcher.followed_kinds import SECRETS
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer
from tests.unit.fake_clock import FakeClock
from tests.unit.watcher.commands.test_feed import DEPLOYMENTS, feed_of, put, running, told, until
from tests.unit.watcher.fakes import FakePublisher

START = 0.0
CREATED, RECREATED = "2026-05-04T12:00:00Z", "2026-05-04T13:00:00Z"


def namespaces(kube: KubeClient, clock: FakeClock, *, kcp: bool = False) -> Namespaces:
    return Namespaces(ObjectReader(kube), kcp, clock.time)


def named(publisher: FakePublisher) -> list[tuple[str, str]]:
    """Names of the resources that the planner was told of, and their namespaces' uids."""
    return [
        (each.event.name, each.namespace_uid) for each in publisher.commands if isinstance(each.event, ResourceChanged)
    ]


async def test_namespace_when_asked_for_a_resource_seen_since_it_was_read_then_it_is_read_again(
    server: FakeApiServer, kube: KubeClient
) -> None:
    clock = FakeClock()
    found = namespaces(kube, clock)
    for clock.seconds in (START, START, START + 1):
        assert await found.find_namespace("team-a", clock.seconds)
    assert server.namespace_gets == ["team-a"] * 2


async def test_namespace_when_it_is_labelled_and_annotated_then_nothing_of_that_is_known(
    server: FakeApiServer, kube: KubeClient
) -> None:
    """Who writes them would say where its tenant is placed."""
    written = {"region": "us", "gitops.example.com/ring": "canary", "kcp.io/cluster": "other"}
    metadata = {"uid": "uid-1", "creationTimestamp": CREATED, "labels": written, "annotations": written}
    server.namespaces["team-a"] = metadata
    found = await namespaces(kube, FakeClock()).find_namespace("team-a", START)
    assert found == Namespace("uid-1", int(datetime.fromisoformat(CREATED).timestamp() * 1000), START)


@pytest.mark.parametrize("ahead", [timedelta(seconds=2), timedelta(hours=1)], ids=str)
async def test_resource_when_the_clock_was_set_back_since_its_namespace_was_read_then_that_is_read_again(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher, ahead: timedelta
) -> None:
    """Whoever was given its name meanwhile must not be taken for whom it was before."""
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        with time_machine.travel(datetime.now(UTC) + ahead):
            await put(server, "before", metadata={"creationTimestamp": CREATED})
            await until(lambda: named(publisher) == [("before", "uid-of-team-a")])
            await server.delete("before")
        server.namespaces["team-a"] = {"uid": "latter", "creationTimestamp": RECREATED}
        await put(server, "new", metadata={"creationTimestamp": RECREATED})
        await until(lambda: len(named(publisher)) == 2)
    assert named(publisher)[1] == ("new", "latter")


async def test_namespace_when_many_ask_at_once_then_it_is_read_once(server: FakeApiServer, kube: KubeClient) -> None:
    found = namespaces(kube, FakeClock())
    await asyncio.gather(*(found.find_namespace("team-a", START) for _ in range(20)))
    assert server.namespace_gets == ["team-a"]


async def test_namespace_when_it_is_gone_then_there_is_none(server: FakeApiServer, kube: KubeClient) -> None:
    found = namespaces(kube, FakeClock())
    assert await found.find_namespace("team-a", START)
    server.namespaces["team-a"] = None
    assert await found.find_namespace("team-a", START + 1) is None


@pytest.mark.parametrize(("kcp", "identity"), [(True, "2abc/u"), (False, "u")])
async def test_namespace_when_it_names_its_logical_cluster_then_that_is_part_of_its_identity_in_kcp_only(
    server: FakeApiServer, kube: KubeClient, kcp: bool, identity: str
) -> None:
    meta: Manifest = {"uid": "u", "creationTimestamp": CREATED, "annotations": {"kcp.io/cluster": "2abc"}}
    server.namespaces["team-a"] = meta
    found = await namespaces(kube, FakeClock(), kcp=kcp).find_namespace("team-a", START)
    assert found is not None
    assert (found.uid, found.created_at) == (identity, 1_777_896_000_000)


async def test_resources_when_sent_then_each_tells_its_namespace_which_is_read_once_for_all_of_a_list(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    for name in ("a", "b", "c"):
        await put(server, name)
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        assert server.namespace_gets == ["team-a"]
        await put(server, "a", generation=2)
        await until(lambda: len(named(publisher)) == 4)
    assert server.namespace_gets == ["team-a"], "a resource that was sent before is still there"
    assert {uid for _, uid in named(publisher)} == {"uid-of-team-a"}


async def test_resource_when_another_of_its_kind_is_in_the_namespace_then_that_is_not_read_again(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        for name in ("a", "b", "c"):
            await put(server, name)
            await until(lambda name=name: named(publisher)[-1:] == [(name, "uid-of-team-a")])  # type: ignore[misc]
    assert server.namespace_gets == ["team-a"]


async def test_resource_when_its_namespace_was_made_again_then_a_new_one_tells_that_and_an_old_one_is_not_sent(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "before", metadata={"creationTimestamp": CREATED})
        await until(lambda: named(publisher) == [("before", "uid-of-team-a")])
        await server.delete("before")
        server.namespaces["team-a"] = {"uid": "latter", "creationTimestamp": RECREATED}
        await put(server, "late", metadata={"creationTimestamp": CREATED})
        del server.objects["late"]
        await put(server, "new", metadata={"creationTimestamp": RECREATED})
        await until(lambda: len(named(publisher)) == 2)
    assert named(publisher)[1] == ("new", "latter")
    assert ("late", "changed") not in told(publisher)


async def test_resource_when_the_clock_of_its_api_server_is_behind_that_of_its_namespaces_then_it_is_sent_all_the_same(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    server.namespaces["team-a"] = {"uid": "made by another", "creationTimestamp": RECREATED}
    feed = feed_of(DEPLOYMENTS, kube, publisher)
    async with running(feed):
        await until(lambda: feed.listed)
        await put(server, "web", metadata={"creationTimestamp": CREATED})
        await until(lambda: named(publisher) == [("web", "made by another")])


async def test_secret_when_it_is_sealed_then_for_the_namespace_that_it_is_in(
    server: FakeApiServer, kube: KubeClient, publisher: FakePublisher
) -> None:
    sealed_for: list[str] = []

    def content(_: Manifest, namespace_uid: str) -> tuple[str, str]:
        sealed_for.append(namespace_uid)
        return "{}", ""

    await put(server, "kube", type=SECRETS.parts[0].removeprefix("type="), data={})
    feed: Any = feed_of(SECRETS, kube, publisher, translate=Translator("local", SECRETS.resource, content))
    async with running(feed):
        await until(lambda: feed.listed)
    assert sealed_for == ["uid-of-team-a"]


FORMER, LATTER = Namespace("former", 0, START), Namespace("latter", 0, START)


def thing(uid: str) -> Manifest:
    return {"metadata": {"uid": uid, "name": uid, "namespace": "team-a"}}


def seen(*events: Reflection, is_one_watch: bool = True) -> NamespaceInference:
    inference = NamespaceInference(is_one_watch)
    for event in events:
        inference.observe_event(event)
    return inference


def test_neighbour_when_it_exists_then_a_new_object_is_in_the_same_namespace() -> None:
    inference = seen(Seen(thing("old")), Changed(thing("new")))
    inference.note_namespace("old", "team-a", FORMER)
    assert inference.find_namespace("new", "team-a", START) == FORMER
    assert inference.find_namespace("new", "team-b", START) is None


@pytest.mark.parametrize("ends", [Deleted(thing("old")), ListStarted()], ids=["deleted", "listed again"])
def test_neighbour_when_it_is_gone_then_it_tells_nothing_of_a_new_object(ends: Reflection) -> None:
    inference = seen(Changed(thing("old")))
    inference.note_namespace("old", "team-a", FORMER)
    for event in (ends, Changed(thing("new"))):
        inference.observe_event(event)
    assert inference.find_namespace("new", "team-a", START) is None


def test_neighbour_when_it_went_while_its_namespace_was_read_then_it_tells_nothing() -> None:
    inference = seen(Changed(thing("old")), Deleted(thing("old")), Changed(thing("new")))
    inference.note_namespace("old", "team-a", FORMER)
    assert inference.find_namespace("new", "team-a", START) is None


def test_object_when_it_went_before_it_was_sent_then_a_newer_neighbour_tells_nothing_of_it() -> None:
    inference = seen(Changed(thing("old")), Deleted(thing("old")), Changed(thing("new")))
    inference.note_namespace("new", "team-a", LATTER)
    assert inference.find_namespace("old", "team-a", START) is None


def test_neighbour_when_it_was_found_in_a_newer_namespace_then_the_former_one_is_forgotten() -> None:
    inference = seen(Changed(thing("old")), Changed(thing("new")))
    inference.note_namespace("old", "team-a", FORMER)
    inference.note_namespace("new", "team-a", LATTER)
    assert inference.find_namespace("new", "team-a", START) == LATTER


def test_object_when_its_kind_is_followed_by_several_watches_then_only_itself_tells_its_namespace() -> None:
    inference = seen(Changed(thing("old")), Changed(thing("new")), is_one_watch=False)
    inference.note_namespace("old", "team-a", FORMER)
    assert inference.find_namespace("old", "team-a", START) == FORMER
    assert inference.find_namespace("new", "team-a", START) is None


def test_neighbour_when_its_namespace_was_read_a_minute_ago_then_it_tells_of_itself_alone() -> None:
    """An administrator may have removed the namespace by force, and left the neighbour in the next one."""
    inference, later = seen(Changed(thing("old")), Changed(thing("new"))), START + INFERENCE_COUNTS_FOR_SECONDS
    inference.note_namespace("old", "team-a", FORMER)
    assert inference.find_namespace("new", "team-a", later) is None
    assert inference.find_namespace("old", "team-a", later) == FORMER
