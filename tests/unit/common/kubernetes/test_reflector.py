"""Whatever an API server does to a watch, every change arrives: in order, none lost, and the picture is exact."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from services.common import clock
from services.common.backoff import Backoff
from services.common.kubernetes import (
    SECRET,
    Changed,
    Deleted,
    KubeClient,
    ListCompleted,
    ListStarted,
    Reflection,
    Rejected,
    Restored,
    Seen,
    reflect,
    reflector,
)
from services.common.kubernetes.client import PAGE
from services.common.kubernetes.reflector import LARGER, MAX_FAILED_RESUMES
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from tests.unit.common.kubernetes.fake_api_server import (
    FakeApiServer,
    Fault,
    answers,
    bookmark,
    error_event,
    expires_between_pages,
    page,
    says,
    serving,
    status,
    streams,
)

DEADLINE_SECONDS = 10
QUICK = partial(Backoff, first=0.001, limit=0.01)


@pytest.fixture
async def server() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
async def kube(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    async with serving(server) as client:
        yield client


class Follower:
    """Reads a reflection as a careful consumer does: what a list did not show is gone."""

    def __init__(
        self,
        kube: KubeClient,
        parts: tuple[str, ...] = ("",),
        grace_seconds: float = DEADLINE_SECONDS,
        missing_after: float | None = None,
        backoff: Callable[[], Backoff] = QUICK,
    ) -> None:
        self.events: list[Reflection] = []
        self.picture: dict[str, str] = {}
        self._listed: set[str] = set()
        self._reflection = reflect(
            kube,
            GITOPS_DEPLOYMENT,
            parts=parts,
            backoff=backoff,
            grace_seconds=grace_seconds,
            missing_after=missing_after,
        )

    async def until_version(self, version: int) -> None:
        """Read until an object of this version was seen."""
        await self._until(lambda event: _version(event) == version)

    async def until_picture(self, expected: dict[str, str]) -> None:
        """Read until this is the picture: what a list lacks goes at its end."""
        if self.picture != expected:
            await self._until(lambda _: self.picture == expected)

    async def until_changes(self, count: int) -> None:
        """Read until this many changes were seen."""
        await self._until(lambda _: len(self.changes) >= count)

    async def until_lists(self, count: int) -> None:
        """Read until this many lists were completed."""
        await self._until(lambda _: self.lists_completed >= count)

    @property
    def lists_completed(self) -> int:
        return sum(isinstance(event, ListCompleted) for event in self.events)

    @property
    def restores(self) -> int:
        return sum(isinstance(event, Restored) for event in self.events)

    @property
    def changes(self) -> list[tuple[str, int]]:
        """Type and version of everything but the lists."""
        return [
            (type(event).__name__, _version(event)) for event in self.events if isinstance(event, Changed | Deleted)
        ]

    async def _until(self, done: Callable[[Reflection], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            async for event in self._reflection:
                self._take(event)
                if done(event):
                    return

    def _take(self, event: Reflection) -> None:
        self.events.append(event)
        match event:
            case ListStarted():
                self._listed = set()
            case Seen(item) | Changed(item):
                name = item["metadata"]["name"]
                self.picture[name] = item["metadata"]["resourceVersion"]
                self._listed.add(name)
            case Deleted(item):
                self.picture.pop(item["metadata"]["name"], None)
            case ListCompleted():
                self.picture = {name: version for name, version in self.picture.items() if name in self._listed}

    async def close(self) -> None:
        await self._reflection.aclose()


def _version(event: Reflection) -> int:
    return int(event.object["metadata"]["resourceVersion"]) if isinstance(event, Seen | Changed | Deleted) else 0


@pytest.fixture
async def follower(kube: KubeClient) -> AsyncIterator[Follower]:
    follower = Follower(kube)
    yield follower
    await follower.close()


async def test_collection_when_listed_then_every_object_is_seen_once_across_pages(
    server: FakeApiServer, follower: Follower
) -> None:
    for number in range(2 * PAGE + 1):
        await server.put(f"object-{number}")
    await follower.until_lists(1)
    names = [event.object["metadata"]["name"] for event in follower.events if isinstance(event, Seen)]
    assert names == list(server.objects)
    assert len(server.lists) == 3
    assert follower.events[-1] == ListCompleted(2 * PAGE + 1)


async def test_changes_when_nothing_goes_wrong_then_they_arrive_in_order(
    server: FakeApiServer, follower: Follower
) -> None:
    await server.put("a")
    await follower.until_lists(1)
    await server.put("b")
    await server.put("a")
    await server.delete("b")
    await follower.until_version(104)
    assert follower.changes == [("Changed", 102), ("Changed", 103), ("Deleted", 104)]


@pytest.fixture
async def second_page(server: FakeApiServer) -> asyncio.Event:
    """A list of two pages, the second of which comes when this is set."""
    for number in range(PAGE + 2):
        await server.put(f"object-{number:03}")
    gate = asyncio.Event()
    server.list_faults.extend([page(), page(gate)])
    return gate


async def test_change_when_a_long_list_is_being_read_then_it_arrives_meanwhile(
    server: FakeApiServer, follower: Follower, second_page: asyncio.Event
) -> None:
    reading = asyncio.create_task(follower.until_changes(1))
    await until(lambda: bool(server.watched_from))
    await server.put("new")
    await reading
    assert follower.lists_completed == 0
    second_page.set()
    await follower.until_lists(1)
    assert follower.picture == versions(server)


async def test_list_when_objects_of_it_change_or_go_meanwhile_then_it_does_not_show_them_as_they_were(
    server: FakeApiServer, follower: Follower, second_page: asyncio.Event
) -> None:
    changed, gone = f"object-{PAGE:03}", f"object-{PAGE + 1:03}"
    reading = asyncio.create_task(follower.until_changes(2))
    await until(lambda: bool(server.watched_from))
    await server.put(changed)
    await server.delete(gone)
    await reading
    second_page.set()
    await follower.until_lists(1)
    assert follower.events[-1] == ListCompleted(PAGE + 2)
    seen = {event.object["metadata"]["name"] for event in follower.events if isinstance(event, Seen)}
    assert seen.isdisjoint({changed, gone})
    assert follower.picture == versions(server)


RESUMES: dict[str, Fault] = {
    "ended-by-agreement": streams(events=1),
    "ended-before-any-event": streams(events=0),
    "connection-lost-between-events": streams(events=1, abort=True),
    "connection-lost-within-a-line": streams(events=1, then=b'{"type":"MODIFIED","object":{"meta', abort=True),
    "ended-within-a-line": streams(events=1, then=b'{"type":"MODIFIED","object":{"meta'),
    "line-is-not-json": streams(events=1, then=b"<html>bad gateway</html>\n"),
    "line-is-no-event": streams(events=1, then=b'["surprise"]\n'),
    "line-has-no-object": streams(events=1, then=b'{"type":"ADDED"}\n'),
    "error-event-500": streams(events=1, then=error_event(500, "InternalError")),
    "error-event-429": streams(events=1, then=error_event(429, "TooManyRequests")),
    "refused-for-now-503": answers(503, "ServiceUnavailable"),
    "refused-for-now-429": answers(429, "TooManyRequests"),
    "credentials-being-renewed-401": answers(401, "Unauthorized"),
    "proxy-answers-instead": says(b"<html>502</html>", code=502),
    "in-single-bytes": streams(events=2, chunk=1),
}


@pytest.mark.parametrize("fault", RESUMES.values(), ids=RESUMES)
async def test_watch_when_it_breaks_then_it_resumes_where_it_was_and_nothing_is_lost_or_repeated(
    server: FakeApiServer, follower: Follower, fault: Fault
) -> None:
    server.watch_faults.append(fault)
    await follower.until_lists(1)
    for name in ("a", "b", "c"):
        await server.put(name)
    await server.delete("a")
    await follower.until_version(103)
    await server.put("d")
    await follower.until_version(105)
    assert follower.changes == [
        ("Changed", 101),
        ("Changed", 102),
        ("Changed", 103),
        ("Deleted", 104),
        ("Changed", 105),
    ]
    assert follower.lists_completed == 1


async def test_watch_when_it_breaks_after_a_bookmark_then_it_resumes_at_the_bookmarks_version(
    server: FakeApiServer, follower: Follower
) -> None:
    server.version = 500  # changes of other collections moved the version on
    server.watch_faults.append(streams(events=0, then=bookmark(500), abort=True))
    server.watch_faults.append(streams(events=1))
    server.lists.clear()
    await follower.until_lists(1)
    reading = asyncio.create_task(follower.until_version(501))
    await until(lambda: len(server.watched_from) == 2)
    await server.put("a")
    await reading
    assert server.watched_from[1] == 500


async def test_watch_when_a_bookmark_is_newer_than_the_forgotten_history_then_no_list_is_needed(
    server: FakeApiServer, follower: Follower
) -> None:
    server.watch_faults.append(streams(events=0, then=bookmark(400), abort=True))
    await follower.until_lists(1)
    server.version = server.oldest = 400
    reading = asyncio.create_task(follower.until_version(401))
    await until(lambda: 400 in server.watched_from)
    await server.put("a")
    await reading
    assert follower.lists_completed == 1


LOST_HISTORY: dict[str, Fault] = {
    "answer-410": answers(410, "Gone"),
    "error-event-410": streams(events=1, then=error_event(410, "Expired")),
    "error-event-410-after-half-the-changes": streams(events=2, then=error_event(410, "Expired")),
}


@pytest.mark.parametrize("fault", LOST_HISTORY.values(), ids=LOST_HISTORY)
async def test_watch_when_its_history_is_lost_then_a_new_list_shows_what_was_missed(
    server: FakeApiServer, follower: Follower, fault: Fault
) -> None:
    await server.put("stays")
    await server.put("goes")
    server.watch_faults.append(fault)
    await follower.until_lists(1)
    await server.put("comes")
    await server.delete("goes")
    server.forget_history()
    await follower.until_lists(2)
    assert follower.restores == 0, "the API server has gone on"
    assert follower.picture == versions(server)
    await server.put("later")
    await follower.until_version(105)
    assert follower.picture == versions(server)


async def test_history_when_it_is_lost_again_and_again_then_lists_are_spaced_out(server: FakeApiServer) -> None:
    pauses = Pauses()
    server.watch_faults.extend(answers(410, "Gone") for _ in range(4))
    async with serving(server) as kube, aclosing(reflect(kube, GITOPS_DEPLOYMENT, backoff=lambda: pauses)) as events:
        async with asyncio.timeout(DEADLINE_SECONDS):
            async for _ in events:
                if len(server.lists) == 4:
                    break
    assert pauses.taken == [0.001, 0.002, 0.004], "the first is not waited for, but counts"


UNKNOWN = answers(404, "NotFound", "the server could not find the requested resource")


async def test_kind_when_the_api_server_does_not_know_it_then_it_is_waited_for(server: FakeApiServer) -> None:
    server.list_faults.extend([UNKNOWN] * 3)
    await server.put("a")
    async with serving(server) as kube:
        follower = Follower(kube)
        await follower.until_lists(1)
        assert follower.events[-1] == ListCompleted(1)
        await follower.close()


async def test_kind_when_it_may_be_missing_then_there_are_none_until_the_api_server_knows_it(
    server: FakeApiServer, kube: KubeClient
) -> None:
    follower = Follower(kube, missing_after=0.001)
    server.list_faults.extend([UNKNOWN] * 5)
    await server.put("a")
    await follower.until_lists(2)
    assert [event.count for event in follower.events if isinstance(event, ListCompleted)] == [0, 1]
    await server.put("b")
    await follower.until_picture(versions(server))
    await follower.close()


async def test_kind_when_it_goes_while_it_is_followed_then_a_list_says_that_there_are_none(
    server: FakeApiServer, kube: KubeClient
) -> None:
    follower = Follower(kube, missing_after=0.001)
    await server.put("a")
    server.watch_faults.append(UNKNOWN)
    await follower.until_lists(1)
    server.list_faults.extend([UNKNOWN] * 3)
    await follower.until_lists(2)
    assert follower.picture == {}
    await follower.close()


async def test_kind_when_an_api_server_that_starts_does_not_know_it_yet_then_no_list_says_that_there_are_none(
    server: FakeApiServer, kube: KubeClient
) -> None:
    follower = Follower(kube, missing_after=0.001)
    server.list_faults.append(UNKNOWN)
    await server.put("a")
    await follower.until_lists(1)
    assert follower.events[-1] == ListCompleted(1)
    await follower.close()


async def test_watch_when_the_api_server_keeps_failing_it_then_a_new_list_is_made(
    server: FakeApiServer, follower: Follower
) -> None:
    server.watch_faults.extend(answers(504, "Timeout", "Too large resource version") for _ in range(MAX_FAILED_RESUMES))
    await follower.until_lists(2)
    assert len(server.watched_from) == MAX_FAILED_RESUMES


async def test_watch_when_the_api_server_was_restored_to_an_older_version_then_that_is_told_and_a_new_list_is_made(
    server: FakeApiServer, follower: Follower
) -> None:
    restored = asyncio.Event()

    async def breaks(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        response = await server.open(request)
        await restored.wait()
        return response

    server.watch_faults.append(breaks)
    await server.put("a")
    server.version = 500
    await server.put("b")
    await follower.until_lists(1)
    server.version, server.history = 200, []
    del server.objects["b"]
    restored.set()
    await follower.until_lists(2)
    assert follower.picture == versions(server), "a watch from version 501 would wait in silence"
    assert follower.restores == 1


async def test_list_when_it_is_of_an_older_version_than_was_seen_then_that_is_told(
    server: FakeApiServer, follower: Follower
) -> None:
    restored = asyncio.Event()

    async def expires(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        await restored.wait()
        return status(410, "Expired")

    await server.put("a")
    server.watch_faults.append(expires)
    await follower.until_lists(1)
    server.version, server.history, server.oldest = 50, [], 50
    restored.set()
    await follower.until_lists(2)
    assert follower.restores == 1


async def test_watch_when_the_api_server_is_overloaded_for_long_then_no_list_is_added_to_its_load(
    server: FakeApiServer, follower: Follower
) -> None:
    server.watch_faults.extend(answers(429, "TooManyRequests") for _ in range(3 * MAX_FAILED_RESUMES))
    await follower.until_lists(1)
    await server.put("a")
    await follower.until_version(101)
    assert follower.lists_completed == 1


async def test_collection_when_only_metadata_is_wanted_then_lists_and_watches_carry_no_more_and_say_their_part(
    server: FakeApiServer,
) -> None:
    await server.put("listed", type="a", data="content")
    seen: list[Reflection] = []
    async with serving(server) as kube, aclosing(reflect(kube, SECRET, parts=["type=a"], metadata_only=True)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ListCompleted):
                await server.put("changed", type="a", data="content")
            if isinstance(event, Changed):
                break
    objects = [event for event in seen if isinstance(event, Seen | Changed)]
    assert [event.object["metadata"]["name"] for event in objects] == ["listed", "changed"]
    assert [event.object.keys() for event in objects] == [{"metadata"}] * 2
    assert [event.part for event in objects] == ["type=a"] * 2


async def test_list_when_it_expires_between_pages_then_it_starts_over_in_larger_pages(
    server: FakeApiServer, follower: Follower
) -> None:
    for number in range(PAGE + 1):
        await server.put(f"object-{number}")
    server.list_faults.append(expires_between_pages())
    await follower.until_lists(1)
    assert [request["limit"] for request in server.lists] == [str(PAGE), str(PAGE), str(LARGER * PAGE)]
    assert sum(isinstance(event, ListStarted) for event in follower.events) == 2
    assert follower.picture == versions(server)


LIST_TROUBLE: dict[str, list[Fault]] = {
    "server-failed": [answers(500, "InternalError")],
    "overloaded-twice": [answers(429), answers(429)],
    "crd-not-there-yet": [answers(404, "NotFound")],
    "credentials-being-renewed": [answers(401, "Unauthorized")],
    "proxy-answers-instead": [says(b"<html>hello</html>")],
    "truncated": [says(b'{"metadata":{"resourceVersion":"1"},"items":[{')],
}


@pytest.mark.parametrize("faults", LIST_TROUBLE.values(), ids=LIST_TROUBLE)
async def test_list_when_it_fails_then_it_is_tried_until_it_is_complete(
    server: FakeApiServer, follower: Follower, faults: list[Fault]
) -> None:
    await server.put("a")
    server.list_faults.extend(faults)
    await follower.until_lists(1)
    assert follower.picture == versions(server)
    started = sum(isinstance(event, ListStarted) for event in follower.events)
    assert started == len(faults) + 1, "each attempt is a list of its own"


@pytest.mark.parametrize("where", ["list", "watch"])
async def test_reflection_when_it_is_forbidden_for_a_moment_then_it_goes_on(
    server: FakeApiServer, follower: Follower, where: str
) -> None:
    faults = server.list_faults if where == "list" else server.watch_faults
    faults.extend([answers(403, "Forbidden", "rights are not known yet")] * 3)
    await server.put("a")
    await follower.until_lists(1)
    await server.put("b")
    await follower.until_version(102)
    assert follower.picture == versions(server)


@pytest.mark.parametrize("where", ["list", "watch"])
async def test_reflection_when_it_is_forbidden_for_long_then_it_says_so_and_ends(
    server: FakeApiServer, kube: KubeClient, where: str
) -> None:
    follower = Follower(kube, grace_seconds=0)
    faults = server.list_faults if where == "list" else server.watch_faults
    faults.append(answers(403, "Forbidden", f"user may not {where} gitopsdeployments"))
    with pytest.raises(Rejected, match=f"may not {where}") as refused:
        await follower.until_lists(2)
    assert refused.value.status == 403


async def test_reflection_when_it_is_forbidden_twice_and_works_in_between_then_it_goes_on(
    server: FakeApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = itertools.count(step=60)
    for module in (reflector, clock):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(minutes)))
    follower = Follower(kube, grace_seconds=30)
    refusal = answers(403, "Forbidden", "rights are not known yet")
    server.list_faults.append(refusal)
    server.watch_faults.append(refusal)
    await server.put("a")
    await follower.until_lists(1)
    await server.put("b")
    await follower.until_version(102)


@pytest.mark.parametrize("where", ["list", "watch"])
async def test_reflection_when_it_is_forbidden_each_time_that_the_api_server_starts_then_it_goes_on(
    server: FakeApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    passed = itertools.count(step=20)
    now = [next(passed)]

    class Delays(Backoff):
        def next_delay(self) -> float:
            now[0] = next(passed)
            return 0.001

    for module in (reflector, clock):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    follower = Follower(kube, grace_seconds=30, backoff=Delays)
    faults = server.list_faults if where == "list" else server.watch_faults
    refusal = answers(403, "Forbidden", "rights are not known yet")
    for _ in range(3):
        faults += [refusal, answers(503, "ServiceUnavailable", "not all is installed yet")]
    await server.put("a")
    await follower.until_lists(1)
    await server.put("b")
    await follower.until_version(102)


async def test_event_when_it_is_huge_then_it_arrives_whole(server: FakeApiServer, follower: Follower) -> None:
    await follower.until_lists(1)
    await server.put("huge", spec="x" * 6_000_000)
    await follower.until_version(101)
    assert len(follower.events[-1].object["spec"]) == 6_000_000  # type: ignore[union-attr]


async def test_connection_when_the_consumer_stops_then_it_is_closed(
    server: FakeApiServer, follower: Follower, kube: KubeClient
) -> None:
    await follower.until_lists(1)
    await server.put("a")
    await follower.until_version(101)
    await follower.close()
    connector = kube.watches.connector
    await until(lambda: not connector._acquired)


async def test_call_when_more_is_watched_than_calls_may_be_in_flight_then_it_waits_behind_no_watch(
    server: FakeApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube.calls.connector, "_limit", 1)
    watches = [asyncio.ensure_future(anext(kube.watch_objects(GITOPS_DEPLOYMENT, "100"))) for _ in range(3)]
    await until(lambda: len(server.watched_from) == len(watches))
    await server.put("a")
    await kube.get_object(GITOPS_DEPLOYMENT, "team-a", "a")
    assert [event.object["metadata"]["name"] for event in await asyncio.gather(*watches)] == ["a"] * 3


@pytest.mark.parametrize("seed", range(8))
async def test_picture_when_everything_goes_wrong_at_random_then_it_is_still_exact(
    server: FakeApiServer, follower: Follower, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a reproducible storm
    troubles = [*RESUMES.values(), *LOST_HISTORY.values()]
    for _ in range(12):
        server.watch_faults.append(chance.choice(troubles))
    reading = asyncio.create_task(follower.until_version(100 + 201))
    for number in range(200):
        name = f"object-{chance.randrange(20)}"
        if name in server.objects and chance.random() < 0.4:
            await server.delete(name)
        else:
            await server.put(name, number=number)
        if chance.random() < 0.05:
            server.forget_history()
        if chance.random() < 0.3:
            await asyncio.sleep(0.001)
    await server.put("last")
    await reading
    await follower.until_picture(versions(server))


class Pauses(Backoff):
    """Records the delays asked for."""

    def __init__(self) -> None:
        super().__init__(first=0.001, limit=1)
        self.taken: list[float] = []

    def next_delay(self) -> float:
        self.taken.append(self.first * 2 ** len(self.taken))
        super().next_delay()
        return self.taken[-1]


def versions(server: FakeApiServer) -> dict[str, str]:
    return {name: item["metadata"]["resourceVersion"] for name, item in server.objects.items()}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the server under test signals nothing
            await asyncio.sleep(0.001)


@pytest.fixture
async def parts(kube: KubeClient) -> AsyncIterator[Follower]:
    """Follows what is of type x or y, as two parts."""
    follower = Follower(kube, ("type=x", "type=y"))
    yield follower
    await follower.close()


async def test_parts_when_listed_then_they_make_one_list_and_others_are_not_in_it(
    server: FakeApiServer, parts: Follower
) -> None:
    for name, type_ in (("a", "x"), ("b", "y"), ("c", "z")):
        await server.put(name, type=type_)
    await parts.until_lists(1)
    assert [type(event) for event in parts.events] == [ListStarted, Seen, Seen, ListCompleted]
    assert parts.events[-1] == ListCompleted(2)
    assert set(parts.picture) == {"a", "b"}


async def test_parts_when_they_change_then_the_changes_of_each_arrive_in_order(
    server: FakeApiServer, parts: Follower
) -> None:
    await parts.until_lists(1)
    for name, type_ in (("a", "x"), ("b", "y"), ("c", "z"), ("a", "x")):
        await server.put(name, type=type_)
    await parts.until_changes(3)
    assert sorted(parts.changes) == [("Changed", 101), ("Changed", 102), ("Changed", 104)]
    assert parts.changes.index(("Changed", 101)) < parts.changes.index(("Changed", 104))


async def test_parts_when_history_of_one_is_lost_then_all_are_listed_again(
    server: FakeApiServer, parts: Follower
) -> None:
    await server.put("a", type="x")
    await server.put("b", type="y")
    server.watch_faults.append(answers(410, "Expired"))
    await parts.until_lists(2)
    assert [item["fieldSelector"] for item in server.lists] == ["type=x", "type=y"] * 2
    assert set(parts.picture) == {"a", "b"}


async def test_parts_when_an_object_is_made_anew_in_another_part_then_the_list_shows_it() -> None:
    """As a Secret whose type was changed: it was deleted, and created under its name."""
    former, latter = ({"metadata": {"namespace": "a", "name": "s", "uid": uid}} for uid in ("1", "2"))
    removed = asyncio.Event()

    async def first() -> AsyncGenerator[Any]:
        yield Deleted(former)
        removed.set()
        yield reflector._PartListed()

    async def second() -> AsyncGenerator[Any]:
        await removed.wait()
        yield Seen(latter)
        yield reflector._PartListed()

    events = [event async for event in reflector._collected([first(), second()])]
    assert events == [Deleted(former), Seen(latter), ListCompleted(1)]


def test_events_when_represented_then_the_object_does_not_show() -> None:
    content = {"data": {"password": "PLANTED"}}
    assert "PLANTED" not in repr([Seen(content), Changed(content), Deleted(content)])
