"""A watcher that ends before any one of its effects, and another that follows: the planner and the users learn all.

The effects are not listed here: every request to the API server is one, and every message and dead letter to Kafka. The
process ends before the n-th, for every n, so a step that is added to the code is stopped at without a new test.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

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
from services.common.kubernetes import KubeClient
from services.common.messages import Command, ResourceChanged, ResourceGone, ResyncCompleted, WorkspaceResource
from services.watcher.commands.epochs import Epochs
from services.watcher.status.delivery import StatusDelivery
from services.watcher.status.row_consumer import DecodedRow
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer
from tests.unit.watcher.commands.test_feed import DEPLOYMENTS, PARTITIONS, feed_of, put, running, until
from tests.unit.watcher.fakes import FakePublisher
from tests.unit.watcher.manifests import row


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


class MortalServer(FakeApiServer):
    """Every request is an effect of whichever process runs."""

    effects = Effects(fatal=-1)

    async def handle(self, request: Any) -> Any:
        await self.effects.await_death()
        return await super().handle(request)


class MortalPublisher(FakePublisher):
    """The log outlives the processes; what one sends after its end is in no log, and nothing comes back."""

    effects = Effects(fatal=-1)

    def send_message(self, *arguments: Any, **named: Any) -> Future[int]:
        return super().send_message(*arguments, **named) if self.effects.happens() else Future()


def known(commands: list[Command]) -> dict[str, int]:
    """Resources that the planner knows after these commands, with their generations."""
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
    return {uid: each.generation for uid, each in found.items()}


def listed(server: FakeApiServer) -> dict[str, int]:
    """What there is."""
    return {each["metadata"]["uid"]: each["metadata"]["generation"] for each in server.objects.values()}


async def happen(server: FakeApiServer, said: Callable[[dict[str, int]], Any]) -> None:
    """What users do; each waits until a watcher has said so, whichever."""
    for change in (
        lambda: put(server, "a"),
        lambda: put(server, "b"),
        lambda: put(server, "a", generation=2),
        lambda: server.delete("b"),
        lambda: put(server, "c", namespace="team-b"),
    ):
        await change()
        await said(listed(server))


async def watched(server: MortalServer, kube: KubeClient, fatal: int) -> tuple[int, FakePublisher]:
    """A story, watched by a process that ends before its effect ``fatal``, and by the next one."""
    server.objects.clear()
    publisher, epoch = MortalPublisher(), 0
    over = asyncio.Event()

    async def said(expected: dict[str, int]) -> None:
        await until(lambda: known(publisher.commands) == expected)

    async def tell() -> None:
        await put(server, "before")
        await said(listed(server))
        await happen(server, said)
        over.set()

    story = asyncio.create_task(tell())
    done = 0
    while not over.is_set():
        effects = server.effects = publisher.effects = Effects(fatal if done == 0 else -1)
        feed = feed_of(DEPLOYMENTS, kube, publisher, epochs=Epochs(epoch))
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
async def server() -> MortalServer:
    return MortalServer()


async def test_watcher_when_it_ends_before_any_one_of_its_effects_then_the_planner_learns_all_from_the_next(
    server: MortalServer, kube: KubeClient
) -> None:
    number, _ = await watched(server, kube, fatal=-1)
    assert number > 12, "the effects are not seen any more"
    for fatal in range(1, number + 1):
        _, publisher = await watched(server, kube, fatal)
        assert known(publisher.commands) == listed(server), f"before effect {fatal} of {number}"


# Statuses

SOURCE = TopicPartition("gitops.workspace.local", 0)


@dataclass
class Users:
    """What a user sees of each resource, and what operators see of messages that nobody understands."""

    effects: Effects
    shown: dict[str, str] = field(default_factory=dict)
    letters: list[int] = field(default_factory=list)

    async def write(self, item: WorkspaceResource) -> bool:
        await self.effects.await_death()
        self.shown[item.name] = item.status
        return True

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
]


async def delivered(fatal: int) -> tuple[int, Users]:
    """What users see of the log, written by a process that ends before its effect ``fatal``, and by the next one."""
    users = Users(Effects(fatal))
    committed = await deliver(users, first=0)
    done = users.effects.done
    users.effects = Effects(fatal=-1)
    assert await deliver(users, first=committed) == len(LOG)
    return done, users


async def deliver(users: Users, first: int) -> int:
    """One process, from what is committed on; returns what is committed by then."""
    offsets, letters = OffsetTracker(), cast("DeadLetterQueue", users)
    offsets.assign_partitions({SOURCE: first})
    session = GroupSession(timeout_seconds=60)
    session.confirm_membership(session.clock.time())
    delivery = StatusDelivery(users.write, offsets, session, letters, DeadLetterLimit("watcher", 0.5, 3), 2)
    working = asyncio.create_task(delivery.run(writers=2))
    tracked = [offsets.track_offset(SOURCE, offset) for offset in range(first, len(LOG))]
    messages = [ConsumedMessage(each, b"%d" % each.offset, b"v", {}, 0) for each in tracked if each is not None]
    delivery.handle_rows([DecodedRow(message, LOG[message.offset]) for message in messages])
    await until(lambda: users.effects.ended.is_set() or offsets.committable_offset(SOURCE) == len(LOG))
    working.cancel()
    await asyncio.wait([working])
    return offsets.committable_offset(SOURCE) or 0


async def test_statuses_when_their_watcher_ends_before_any_one_of_its_effects_then_users_see_the_newest() -> None:
    number, expected = await delivered(fatal=-1)
    assert (number, expected.letters) == (4, [2])
    for fatal in range(1, number + 1):
        _, users = await delivered(fatal)
        assert users.shown == expected.shown, f"before effect {fatal} of {number}"
        assert set(users.letters) == {2}
