"""A watcher that ends before any one of its effects, and another that follows: the planner and the users learn all.

The effects are not listed here: every request to the API server is one, and every message and dead letter to Kafka. The
process ends before the n-th, for every n, so a step that is added to the code is stopped at without a new test.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import orjson
import pytest

from services.common.errors import Poison
from services.common.kafka import (
    ConsumedMessage,
    DeadLetterLimit,
    DeadLetterQueue,
    GroupSession,
    OffsetTracker,
    TopicPartition,
)
from services.common.kubernetes import KubeClient, Manifest, NotFound, Rejected
from services.common.messages import (
    ChildKind,
    Command,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    WorkspaceResource,
)
from services.kinds.shared.api_group import FINALIZER
from services.watcher.commands.epochs import Epochs
from services.watcher.commands.feed import Feed
from services.watcher.rows.delivery import RowDelivery
from services.watcher.rows.object_applier import ObjectApplier
from services.watcher.rows.row_consumer import DecodedRow
from services.watcher.rows.row_types import OBJECTS, STATUSES, RowType
from services.watcher.rows.status_writer import StatusWriter
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer
from tests.unit.watcher.commands.test_feed import DEPLOYMENTS, PARTITIONS, feed_of, put, running, until
from tests.unit.watcher.commands.test_feed_lookups import TYPE as SECRET_TYPE
from tests.unit.watcher.commands.test_feed_lookups import secret_feed
from tests.unit.watcher.fakes import FakePublisher
from tests.unit.watcher.manifests import child, resource, row
from tests.unit.watcher.rows.fake_cluster import FakeCluster, controlled_by


@dataclass
class Effects:
    """Counts what a process asks of the world; it ends before the n-th: nothing is done or answered from then on."""

    fatal: int
    done: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def happens(self) -> bool:
        """Whether the process is alive to do it."""
        self.done += not self.ended.is_set()
        if self.done == self.fatal:
            self.ended.set()
        return not self.ended.is_set()

    async def await_death(self) -> None:
        """Return if the process is alive; never otherwise."""
        if not self.happens():
            await asyncio.Event().wait()


class CrashingServer(FakeApiServer):
    """Every request is an effect of whichever process runs."""

    effects = Effects(fatal=-1)

    async def handle(self, request: Any) -> Any:
        await self.effects.await_death()
        return await super().handle(request)


class CrashingPublisher(FakePublisher):
    """The log outlives the processes; what one sends after its end is in no log, and nothing comes back."""

    effects = Effects(fatal=-1)

    def send_message(self, *arguments: Any, **named: Any) -> Future[int]:
        return super().send_message(*arguments, **named) if self.effects.happens() else Future()


Contents = dict[str, tuple[int, str]]
"""Of each resource, by its uid, the generation and what is said of it."""


def known(commands: list[Command]) -> Contents:
    """Resources that the planner knows after these commands."""
    found: dict[str, ResourceChanged] = {}
    ends = Counter[int]()
    for command in commands:
        match command.event:
            case ResourceChanged() as changed:
                epoch = max(changed.epoch, found[changed.uid].epoch if changed.uid in found else 0)
                found[changed.uid] = changed
                assert epoch == changed.epoch, "a list knows of a newer one"
            case ResourceGone(uid=uid):
                found.pop(uid, None)
            case ResyncCompleted(epoch=epoch):
                ends[epoch] += 1
                if ends[epoch] == PARTITIONS:
                    found = {uid: each for uid, each in found.items() if each.epoch >= epoch}
    return {uid: (each.generation, each.spec) for uid, each in found.items()}


@dataclass(frozen=True)
class Followed:
    """A kind of resource, and what is said of one in a command."""

    put: Callable[..., Awaitable[None]]
    new_feed: Callable[..., Feed]
    said_of: Callable[[Manifest], Any]

    def listed(self, server: FakeApiServer) -> Contents:
        """What there is."""
        return {
            each["metadata"]["uid"]: (each["metadata"]["generation"], orjson.dumps(self.said_of(each)).decode())
            for each in server.objects.values()
        }


async def put_content(server: FakeApiServer, name: str, generation: int = 1, namespace: str = "team-a") -> None:
    """A Secret of ours, which holds something else in each generation."""
    data = {"kubeconfig": f"{name}-{generation}"}
    await put(server, name, generation, namespace, type=SECRET_TYPE, data=data)


KINDS = {
    "resources": Followed(put, partial(feed_of, DEPLOYMENTS), lambda manifest: manifest["spec"]),
    "Secrets": Followed(put_content, secret_feed, lambda manifest: manifest["data"]),
}
"""Of Secrets a watch tells the metadata alone: each is read before it is sent."""


@dataclass
class Story:
    """What users do, and a periodic list between; each waits until a watcher has said so, whichever."""

    server: CrashingServer
    publisher: CrashingPublisher
    kind: Followed
    feed: Feed | None = None
    """Of the process that watches now."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def happen(self) -> None:
        for change in (
            lambda: self.kind.put(self.server, "before"),
            lambda: self.kind.put(self.server, "a"),
            lambda: self.kind.put(self.server, "b"),
            lambda: self.kind.put(self.server, "a", generation=2),
            self._list_anew,
            lambda: self.server.delete("b"),
            lambda: self.kind.put(self.server, "c", namespace="team-b"),
        ):
            await change()
            await until(lambda: known(self.publisher.commands) == self.kind.listed(self.server))
        self.over.set()

    async def _list_anew(self) -> None:
        """As it happens now and then; the next process lists in any case. What goes meanwhile may be swept."""
        assert self.feed is not None
        await until(lambda: self._complete_epoch() > 0)
        before = self._complete_epoch()
        self.feed.list_anew()
        await self.server.delete("before")
        await until(lambda: self._complete_epoch() > before)

    def _complete_epoch(self) -> int:
        """The newest that every partition has the end of; 0 if there is none."""
        ends = Counter(each.epoch for each in self.publisher.events if isinstance(each, ResyncCompleted))
        return max((epoch for epoch, count in ends.items() if count == PARTITIONS), default=0)


async def watched(server: CrashingServer, kube: KubeClient, kind: Followed, fatal: int) -> tuple[int, FakePublisher]:
    """A story, watched by a process that ends before its effect ``fatal``, and by the next one."""
    server.objects.clear()
    publisher, epoch = CrashingPublisher(), 0
    told = Story(server, publisher, kind)
    over = told.over
    story = asyncio.create_task(told.happen())
    done = 0
    while not over.is_set():
        effects = server.effects = publisher.effects = Effects(fatal if done == 0 else -1)
        feed = told.feed = kind.new_feed(kube, publisher, epochs=Epochs(epoch))
        async with running(feed):
            ends = [asyncio.ensure_future(effects.ended.wait()), asyncio.ensure_future(over.wait()), story]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends[:2]:
            end.cancel()
        done, epoch = done or effects.done, max((getattr(each, "epoch", 0) for each in publisher.events), default=0)
        if story.done():
            story.result()
    return done, publisher


@pytest.fixture
async def server() -> CrashingServer:
    return CrashingServer()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
async def test_watcher_when_it_ends_before_any_one_of_its_effects_then_the_planner_learns_all_from_the_next(
    server: CrashingServer, kube: KubeClient, kind: Followed
) -> None:
    number, _ = await watched(server, kube, kind, fatal=-1)
    assert number > 20, "the effects are not seen any more"
    for fatal in range(1, number + 1):
        _, publisher = await watched(server, kube, kind, fatal)
        assert known(publisher.commands) == kind.listed(server), f"before effect {fatal} of {number}"


# Statuses

SOURCE = TopicPartition("gitops.workspace.local", 0)
OTHER = "example.com/other"
WRITES = 3 + 2 + 3
"""Calls to the API server: three statuses; a finalizer read and taken off; the same, and a status."""


@dataclass
class Users:
    """The resources that users see, by name, and what operators see of messages that nobody understands.

    Each call to the API server is an effect, and refused if what a patch tests is not so.
    """

    effects: Effects
    resources: dict[str, Manifest] = field(default_factory=dict)
    letters: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            self.resources[name] = resource(name)
        for name, finalizers in {"leaving": [FINALIZER], "held": [FINALIZER, OTHER]}.items():
            self.resources[name] = resource(name, finalizers=finalizers, deletionTimestamp="2026-05-04T12:30:15Z")

    async def get_object(self, _kind: Any, _namespace: str, name: str) -> Manifest:
        await self.effects.await_death()
        return self._existing(name)

    async def patch_object(self, _kind: Any, _namespace: str, name: str, patch: list[Manifest], **_: str) -> Manifest:
        await self.effects.await_death()
        patched = self._existing(name)
        for operation in orjson.loads(orjson.dumps(patch)):
            *way, last = operation["path"].strip("/").split("/")
            place = patched
            for step in way:
                place = place[step]
            if operation["op"] == "test" and place.get(last) != operation["value"]:
                raise Rejected("the server rejected our request", 422)
            place[last] = operation["value"]
        self.resources[name] = patched
        if patched["metadata"].get("finalizers") == []:
            del self.resources[name]
        return patched

    def _existing(self, name: str) -> Manifest:
        if name not in self.resources:
            raise NotFound(name)
        return copy.deepcopy(self.resources[name])

    def send_letter(self, message: ConsumedMessage, *_: Any) -> Future[int]:
        outcome: Future[int] = Future()
        if self.effects.happens():
            self.letters.append(message.offset)
            outcome.set_result(0)
        return outcome


LOG: list[WorkspaceResource | Poison] = [
    row("a", status='{"a": 1}'),
    row("b", status='{"b": 1}'),
    Poison("not a row"),
    row("a", status='{"a": 2}'),
    row("c", status='{"c": 1}'),
    row("leaving", release_finalizer=True),
    row("held", status='{"held": 1}', release_finalizer=True),
]


WorldT = TypeVar("WorldT", Users, "Namespace")
"""What a process writes to, and its effects on it."""


async def delivered(world: WorldT, log: Sequence[Any], rows: RowType[Any]) -> tuple[int, WorldT]:
    """How many effects a process has before it ends, and what there is once the next one has gone on with the log."""
    committed = await deliver(world, log, rows, first=0)
    done = world.effects.done
    world.effects = Effects(fatal=-1)
    assert await deliver(world, log, rows, first=committed) == len(log)
    return done, world


async def deliver(world: Any, log: Sequence[Any], rows: RowType[Any], first: int) -> int:
    """One process, from what is committed on; returns what is committed by then."""
    offsets, letters = OffsetTracker(), cast("DeadLetterQueue", world)
    offsets.assign_partitions({SOURCE: first})
    session = GroupSession(timeout_seconds=60)
    session.confirm_membership(session.clock.time())
    kube = cast("KubeClient", world)
    writers = {"status": StatusWriter(kube).write_status, "object": ObjectApplier(kube, 1000).apply_row}
    write: Any = writers[rows.name]
    delivery = RowDelivery(rows, write, offsets, session, letters, DeadLetterLimit("watcher", 0.5, 3), 2)
    working = asyncio.create_task(delivery.run(writers=2))
    tracked = [offsets.track_offset(SOURCE, offset) for offset in range(first, len(log))]
    messages = [ConsumedMessage(each, b"%d" % each.offset, b"v", {}, 0) for each in tracked if each is not None]
    delivery.handle_rows([DecodedRow(message, log[message.offset]) for message in messages])
    await until(lambda: world.effects.ended.is_set() or offsets.committable_offset(SOURCE) == len(log))
    working.cancel()
    await asyncio.wait([working])
    return offsets.committable_offset(SOURCE) or 0


async def test_statuses_when_their_watcher_ends_before_any_one_of_its_effects_then_users_see_the_newest() -> None:
    number, expected = await delivered(Users(Effects(fatal=-1)), LOG, STATUSES)
    assert {name: each.get("status") for name, each in expected.resources.items()} == {
        "a": {"a": 2}, "b": {"b": 1}, "c": {"c": 1}, "held": {"held": 1},
    }  # fmt: skip
    assert expected.resources["held"]["metadata"]["finalizers"] == [OTHER]
    assert (number, expected.letters) == (WRITES + 1, [2])
    for fatal in range(1, number + 1):
        _, users = await delivered(Users(Effects(fatal)), LOG, STATUSES)
        assert users.resources == expected.resources, f"before effect {fatal} of {number}"
        assert set(users.letters) == {2}


# Child objects


@dataclass
class Namespace(FakeCluster):
    """A tenant's, with the owner of the child objects. Each call to the API server is an effect."""

    effects: Effects = field(default_factory=lambda: Effects(-1))
    letters: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add(resource("prod"))
        self.add(resource("foreign", spec={"type": "manual"}))
        self.add(resource("old", **controlled_by("prod", "uid-prod")))
        for name, meta in {"login": {"uid": "uid-login"}, "stale": controlled_by("prod", "uid-prod")}.items():
            self.add({"kind": "Secret", "type": "Opaque", "data": {"a": "Yg=="}, "metadata": {"name": name} | meta})

    async def get_object(self, *place: Any) -> Manifest:
        await self.effects.await_death()
        return await super().get_object(*place)

    async def apply_object(self, *what: Any, **how: Any) -> Manifest:
        await self.effects.await_death()
        return await super().apply_object(*what, **how)

    async def delete_object(self, *place: Any, **how: Any) -> None:
        await self.effects.await_death()
        await super().delete_object(*place, **how)

    def send_letter(self, message: ConsumedMessage, *_: Any) -> Future[int]:
        return Users.send_letter(cast("Users", self), message)

    @property
    def contents(self) -> dict[Any, Any]:
        """What there is, whatever uids it got."""
        return {
            place: {name: part for name, part in each.items() if name != "metadata"}
            | {"labels": each["metadata"].get("labels"), "owners": each["metadata"].get("ownerReferences")}
            for place, each in self.objects.items()
        }


COPY = {"kind": ChildKind.SECRET_COPY.value}
OBJECT_LOG = [
    child("a"),
    child("b"),
    Poison("not a row"),
    child(
        "a", manifest='{"labels": {"appstudio.openshift.io/of": "now"}, "annotations": {}, "spec": {"type": "manual"}}'
    ),
    child("foreign"),
    child("orphan", owner_uid="former"),
    child("old", desired="absent", uid="uid-child", manifest=""),
    child("copy", **COPY),
    child("stale", **COPY),  # of another type: deleted, and made anew
]


async def test_objects_when_their_watcher_ends_before_any_one_of_its_effects_then_the_next_leaves_the_same() -> None:
    number, expected = await delivered(Namespace(), OBJECT_LOG, OBJECTS)
    names = {name for _, _, name in expected.objects}
    assert names == {"prod", "foreign", "a", "b", "login", "copy", "stale"}
    assert expected.contents["GitOpsDeployment", "team-a", "a"]["spec"] == {"type": "manual"}
    assert (number > 20, set(expected.letters)) == (True, {2, 4})
    for fatal in range(1, number + 1):
        _, namespace = await delivered(Namespace(effects=Effects(fatal)), OBJECT_LOG, OBJECTS)
        assert namespace.contents == expected.contents, f"before effect {fatal} of {number}"
        assert set(namespace.letters) == {2, 4}
