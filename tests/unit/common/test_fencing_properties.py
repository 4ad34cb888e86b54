"""Whoever is stopped, cut off, replaced and back in whatever order: no former owner writes after its successor has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from services.common.errors import Retry
from services.common.kafka import GroupSession
from services.common.kubernetes import Election
from tests.unit.common.kubernetes.fake_leases import FakeLeases
from tests.unit.fake_clock import FakeClock

TIMEOUT = 6
SECONDS = st.floats(0, TIMEOUT * 1.5)
MEMBERS = st.integers(0, 1)


@dataclass
class Question:
    """A member's sign of life, and whether the broker has accepted it."""

    member: int
    at: float
    accepted: bool = False


class Group(RuleBasedStateMachine):
    """One partition, and two members that both believe that it is theirs.

    The broker gives it to the other one as soon as it has not heard of the owner for long, and that writes at once. A
    member that does nothing while time passes is stopped; a message that takes long is on a slow link.
    """

    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock()
        self.sessions = [GroupSession(TIMEOUT, self.clock) for _ in range(2)]
        self.owner, self.heard_at = 0, 0.0
        self.there, self.back = list[Question](), list[Question]()

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.clock.seconds += seconds
        if self.clock.time() - self.heard_at >= TIMEOUT:
            self.owner, self.heard_at = 1 - self.owner, self.clock.time()

    @rule(member=MEMBERS)
    def ask(self, member: int) -> None:
        self.there.append(Question(member, self.clock.time()))

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def reach_the_broker(self, data: st.DataObject) -> None:
        question = self.there.pop(data.draw(st.integers(0, len(self.there) - 1)))
        question.accepted = question.member == self.owner
        if question.accepted:
            self.heard_at = self.clock.time()
        self.back.append(question)

    @precondition(lambda self: self.back)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        question = self.back.pop(data.draw(st.integers(0, len(self.back) - 1)))
        if question.accepted:
            self.sessions[question.member].confirm_membership(question.at)

    @rule(member=MEMBERS, seconds=SECONDS)
    def write(self, member: int, seconds: float) -> None:
        """As the Kubernetes client does: what is not sent in time is not sent at all."""
        try:
            left = self.sessions[member].require_membership()
        except Retry:
            return
        self.time_passes(min(left, seconds))
        assert member == self.owner or seconds >= left


TestGroup = Group.TestCase

LEASE_SECONDS = 9


class Process:
    """A candidate with a clock of its own, which stands still while it is stopped; whoever leads writes at once."""

    def __init__(self, name: str, server: Any) -> None:
        self.clock, self.stopped, self.server = FakeClock(), False, server
        self.election = Election(server, "gitops", "watcher", name, LEASE_SECONDS, self.clock)
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        self.write()
        await asyncio.Event().wait()

    def write(self) -> None:
        assert not self.election.holds_lease or self.server.holder == self.election.identity

    async def live_until(self, now: float) -> None:
        if not self.stopped:
            await self.clock.advance(now - self.clock.seconds)
            self.write()

    def stop_or_go_on(self, now: float) -> None:
        """What goes on first is a write that was about to be made: nothing that is due has run yet."""
        self.stopped = not self.stopped
        if not self.stopped:
            self.clock.seconds = now
            self.write()


async def _lead_in_turn(steps: list[tuple[float, int]]) -> None:
    """In each step time passes, and then a process is stopped, or goes on."""
    now, server = 0.0, FakeLeases()
    processes = [Process(name, server) for name in ("a", "b")]
    for seconds, changed in steps:
        end = now + seconds
        while now < end:
            now = min(end, now + LEASE_SECONDS / 9)
            for each in processes:
                await each.live_until(now)
        processes[changed].stop_or_go_on(now)
    for each in processes:
        each.task.cancel()
    await asyncio.wait([each.task for each in processes])


@given(steps=st.lists(st.tuples(st.floats(0, LEASE_SECONDS * 1.5), st.integers(0, 1)), max_size=12))
def test_leaders_when_they_are_stopped_and_go_on_then_none_writes_when_another_has_the_lease(
    steps: list[tuple[float, int]],
) -> None:
    asyncio.run(_lead_in_turn(steps))
