"""One candidate works at a time; another takes over; whoever cannot renew has stopped by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.common.errors import Retry
from services.common.kubernetes import Election, Rejected
from services.common.kubernetes.lease import ASK_EVERY, STOP_AFTER
from tests.unit.common.kubernetes.fake_leases import FakeLeases
from tests.unit.fake_clock import FakeClock

LEASE_SECONDS = 15

Stand = Callable[..., "Candidate"]


@dataclass
class Candidate:
    """A process with an election, and when it worked."""

    election: Election
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    fails: Exception | None = None
    gives_up: asyncio.Event = field(default_factory=asyncio.Event)
    """The work returns."""
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self.election.run(self._work))

    async def _work(self) -> None:
        self.began.append(self.election.clock.time())
        if self.fails:
            raise self.fails
        try:
            await self.gives_up.wait()
        finally:
            self.ended.append(self.election.clock.time())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.fixture
def server() -> FakeLeases:
    return FakeLeases()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def stand(server: FakeLeases, clock: FakeClock) -> AsyncIterator[Stand]:
    """Makes candidates; they end with the test."""
    candidates: list[Candidate] = []
    kube: Any = server

    def make(identity: str, **options: Any) -> Candidate:
        election = Election(kube, "gitops", "watcher", identity, LEASE_SECONDS, clock)
        candidates.append(Candidate(election, **options))
        return candidates[-1]

    yield make
    for candidate in candidates:
        await candidate.stop()


async def test_candidate_when_there_is_no_lease_then_it_makes_one_and_works(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    candidate = stand("a")
    await clock.until(lambda: candidate.began)
    assert server.holder == "a"
    assert candidate.election.leading
    assert server.lease is not None
    assert server.lease["spec"]["leaseDurationSeconds"] == LEASE_SECONDS


async def test_candidates_when_two_stand_then_one_works_and_goes_on_renewing(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    first, second = stand("a"), stand("b")
    await clock.until(lambda: len(server.writes) >= 5)
    assert len(set(server.writes)) == 1
    assert sorted([first.election.leading, second.election.leading]) == [False, True]
    assert len(first.began + second.began) == 1


async def test_leader_when_it_dies_then_another_takes_over_after_the_lease_has_run_out(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    first = stand("a")
    await clock.until(lambda: first.began)
    died = clock.time()
    second = stand("b")
    await first.stop()
    await clock.until(lambda: second.began)
    assert LEASE_SECONDS <= second.began[0] - died <= LEASE_SECONDS * (1 + ASK_EVERY)
    assert server.holder == "b"


async def test_leader_when_it_resigns_then_another_takes_over_at_once(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    first = stand("a")
    await clock.until(lambda: first.began)
    second = stand("b")
    await first.stop()
    await first.election.resign()
    await clock.until(lambda: second.began)
    assert server.writes[-2:] == ["", "b"]


async def test_candidate_when_it_does_not_lead_then_resigning_leaves_the_lease_alone(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    first = stand("a")
    await clock.until(lambda: first.began)
    await stand("b").election.resign()
    assert server.holder == "a"


async def test_leader_when_cut_off_then_it_stops_before_another_begins(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    first = stand("a")
    await clock.until(lambda: first.began)
    second = stand("b")
    await clock.until(lambda: server.version >= 2)
    _cut_off(first)
    await clock.until(lambda: second.began)
    assert first.ended
    assert first.ended[0] < second.began[0]
    assert not first.election.leading


def _cut_off(candidate: Candidate) -> None:
    async def nothing(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    class Nowhere:
        get_object = create_object = patch_object = nothing

    nowhere: Any = Nowhere()
    candidate.election.kube = nowhere


async def test_leader_when_the_api_server_fails_for_a_moment_then_it_goes_on_working(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    candidate = stand("a")
    await clock.until(lambda: candidate.began)
    server.failing = 2
    await clock.until(lambda: server.version >= 3)
    assert candidate.ended == []


async def test_leader_when_another_has_taken_the_lease_then_it_stops_at_once(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    candidate = stand("a")
    await clock.until(lambda: candidate.began)
    assert server.lease is not None
    server.write(server.lease["spec"] | {"holderIdentity": "usurper"})
    await clock.until(lambda: candidate.ended)


async def test_election_when_the_work_fails_then_it_ends_with_its_error(clock: FakeClock, stand: Stand) -> None:
    candidate = stand("a", fails=Retry("work failed"))
    await clock.until(candidate.task.done)
    with pytest.raises(Retry, match="work failed"):
        await candidate.task


async def test_election_when_the_lease_is_forbidden_then_it_says_so(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    server.refusal = Rejected("cannot create leases", 403)
    candidate = stand("a")
    await clock.until(candidate.task.done)
    with pytest.raises(Rejected, match="cannot create leases"):
        await candidate.task


async def test_leader_when_it_was_stopped_for_longer_than_it_may_lead_then_it_holds_the_lease_no_more(
    clock: FakeClock, stand: Stand
) -> None:
    candidate = stand("a")
    await clock.until(lambda: candidate.began)
    assert candidate.election.holds_lease
    # As after SIGCONT: the time has passed, and nothing of ours has run yet.
    clock.seconds += LEASE_SECONDS * STOP_AFTER + 0.1
    assert candidate.election.leading
    assert not candidate.election.holds_lease


async def test_leader_when_its_work_returns_then_another_leads_at_once(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    first = stand("a")
    await clock.until(lambda: first.began)
    given_up: list[str] = []
    first.election.wait_until_able = asyncio.Event().wait
    first.election.after_leading = lambda: given_up.append(server.holder)
    second = stand("b")
    first.gives_up.set()
    await clock.until(lambda: second.began)
    assert server.writes[-2:] == ["", "b"]
    assert (len(first.began), given_up) == (1, ["a"])


async def test_candidate_when_it_could_not_work_then_it_does_not_stand(
    server: FakeLeases, clock: FakeClock, stand: Stand
) -> None:
    able = asyncio.Event()
    candidate = stand("a")
    candidate.election.wait_until_able = able.wait
    other = stand("b")
    await clock.until(lambda: other.began)
    assert candidate.began == []
    await other.stop()
    await other.election.resign()
    able.set()
    await clock.until(lambda: candidate.began)
