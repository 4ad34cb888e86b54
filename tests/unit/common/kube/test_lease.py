"""One candidate works at a time; another takes over; whoever cannot renew has stopped by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.common.errors import Retry
from services.common.kube import Election, KubeClient, Refused
from tests.unit.common.kube.fake_api_server import serving, status
from tests.unit.common.kube.fake_leases import FakeLeases

DEADLINE_SECONDS = 10
LEASE_SECONDS = 1


@dataclass
class Candidate:
    """A process with an election, and when it worked."""

    election: Election
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    fails: Exception | None = None
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.create_task(self.election.run(self._work))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        self.began.append(loop.time())
        if self.fails:
            raise self.fails
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(loop.time())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


@pytest.fixture
async def server() -> FakeLeases:
    return FakeLeases()


@pytest.fixture
async def kube(server: FakeLeases) -> AsyncIterator[KubeClient]:
    fake: Any = server
    async with serving(fake) as client:
        yield client


@pytest.fixture
async def other_kube(server: FakeLeases) -> AsyncIterator[KubeClient]:
    """Of another process: cut off on its own."""
    fake: Any = server
    async with serving(fake) as client:
        yield client


@pytest.fixture
async def stand(kube: KubeClient) -> AsyncIterator[Callable[..., Candidate]]:
    """Makes candidates; they end with the test."""
    candidates: list[Candidate] = []

    def make(identity: str, client: KubeClient = kube, **options: Any) -> Candidate:
        candidates.append(Candidate(Election(client, "gitops", "watcher", identity, LEASE_SECONDS), **options))
        return candidates[-1]

    yield make
    for candidate in candidates:
        await candidate.stop()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the fakes signal nothing
            await asyncio.sleep(0.005)


async def test_candidate_when_there_is_no_lease_then_it_makes_one_and_works(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    candidate = stand("a")
    await until(lambda: candidate.began)
    assert server.holder == "a"
    assert candidate.election.leading
    assert server.lease is not None
    assert server.lease["spec"]["leaseDurationSeconds"] == LEASE_SECONDS


async def test_candidates_when_two_stand_then_one_works_and_goes_on_renewing(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    first, second = stand("a"), stand("b")
    await until(lambda: len(server.writes) >= 5)
    assert len(set(server.writes)) == 1
    assert sorted([first.election.leading, second.election.leading]) == [False, True]
    assert len(first.began + second.began) == 1


async def test_leader_when_it_dies_then_another_takes_over_after_the_lease_has_run_out(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    first = stand("a")
    await until(lambda: first.began)
    second = stand("b")
    died = asyncio.get_running_loop().time()
    await first.stop()
    await until(lambda: second.began)
    assert second.began[0] - died > LEASE_SECONDS * 0.5
    assert server.holder == "b"


async def test_leader_when_it_resigns_then_another_takes_over_at_once(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    first = stand("a")
    await until(lambda: first.began)
    second = stand("b")
    await first.stop()
    await first.election.resign()
    await until(lambda: second.began)
    assert server.writes[-2:] == ["", "b"]


async def test_candidate_when_it_does_not_lead_then_resigning_leaves_the_lease_alone(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    first = stand("a")
    await until(lambda: first.began)
    await stand("b").election.resign()
    assert server.holder == "a"


async def test_leader_when_cut_off_then_it_stops_before_another_begins(
    server: FakeLeases, stand: Callable[..., Candidate], other_kube: KubeClient
) -> None:
    first = stand("a")
    await until(lambda: first.began)
    second = stand("b", other_kube)
    await until(lambda: server.version >= 2)
    _cut_off(first)
    await until(lambda: second.began)
    assert first.ended
    assert first.ended[0] < second.began[0]
    assert not first.election.leading


def _cut_off(candidate: Candidate) -> None:
    async def nothing(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    class Nowhere:
        get = create = patch = nothing

    nowhere: Any = Nowhere()
    candidate.election.kube = nowhere


async def test_leader_when_the_api_server_fails_for_a_moment_then_it_goes_on_working(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    candidate = stand("a")
    await until(lambda: candidate.began)
    server.failing = 2
    await until(lambda: server.version >= 3)
    assert candidate.ended == []


async def test_leader_when_another_has_taken_the_lease_then_it_stops_at_once(
    server: FakeLeases, stand: Callable[..., Candidate]
) -> None:
    candidate = stand("a")
    await until(lambda: candidate.began)
    assert server.lease is not None
    server._write({"spec": server.lease["spec"] | {"holderIdentity": "usurper"}})
    await until(lambda: candidate.ended)


async def test_election_when_the_work_fails_then_it_ends_with_its_error(stand: Callable[..., Candidate]) -> None:
    candidate = stand("a", fails=Retry("work failed"))
    with pytest.raises(Retry, match="work failed"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await candidate.task


async def test_election_when_the_lease_is_forbidden_then_it_says_so(
    server: FakeLeases, stand: Callable[..., Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_write", lambda _: status(403, "Forbidden", "cannot create leases"))
    with pytest.raises(Refused, match="cannot create leases"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await stand("a").task
