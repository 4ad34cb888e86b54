"""A tenant that changes too much waits with its latest states, and delays nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.watcher.commands.pending_changes import CHANGES_PER_LISTED, Change, PendingChanges
from services.watcher.commands.throttling import RateLimiter, ReservedBytes
from services.watcher.commands.translation import Translator, spec_within
from tests.unit.fake_clock import FakeClock
from tests.unit.kinds.review.kind import KIND as REVIEWS
from tests.unit.watcher.manifests import NOW, resource

DEADLINE_SECONDS = 10
TRANSLATE = Translator("local", GITOPS_DEPLOYMENT, spec_within(1024))
BURST = 3
RATE = 200


def change(name: str, tenant: str = "team-a", generation: int = 1) -> Change:
    command = TRANSLATE.changed(resource(name, namespace=tenant, generation=generation), 1, NOW)
    return Change(f"{tenant}/{name}", tenant, name, generation, NOW, command)


def gone(name: str, tenant: str = "team-a") -> Change:
    command = TRANSLATE.gone(resource(name, namespace=tenant), NOW)
    return Change(f"{tenant}/{name}", tenant, name, None, NOW, command)


async def take(changes: PendingChanges) -> tuple[Change, int]:
    """The next change; time passes only while none may go out."""
    assert isinstance(changes.clock, FakeClock)
    taking = asyncio.create_task(changes.next_change())
    await changes.clock.until(taking.done)
    taken = taking.result()
    assert taken is not None
    return taken


async def names(changes: PendingChanges, count: int) -> list[str]:
    return [(await take(changes))[0].uid for _ in range(count)]


async def nobody_may(changes: PendingChanges) -> bool:
    """Whether who asks now has to wait."""
    asking = asyncio.ensure_future(changes.next_change())
    for _ in range(3):
        await asyncio.sleep(0)
    done = asking.done()
    asking.cancel()
    return not done


@pytest.fixture
async def changes(time: FakeClock) -> AsyncIterator[PendingChanges]:
    """Of a tenant with a burst of three changes."""
    changes = PendingChanges("GitOpsDeployment", RateLimiter(RATE, BURST), RateLimiter(100_000, 100_000), clock=time)
    yield changes
    changes.clear()


async def test_changes_when_within_the_rate_limit_then_tenants_take_turns_and_nothing_is_held_back(
    changes: PendingChanges,
) -> None:
    for item in (change("a1"), change("a2"), change("a3"), change("b1", "team-b")):
        changes.add_change(item)
    taken = [await take(changes) for _ in range(4)]
    assert [item.uid for item, _ in taken] == ["team-a/a1", "team-b/b1", "team-a/a2", "team-a/a3"]
    assert {held for _, held in taken} == {0}


async def test_tenant_when_beyond_its_rate_limit_then_others_go_on_and_its_changes_say_how_long_they_waited(
    changes: PendingChanges,
) -> None:
    for number in range(BURST + 5):
        changes.add_change(change(f"a{number}"))
    await names(changes, BURST)
    assert await nobody_may(changes)
    changes.add_change(change("b", "team-b"))
    assert await take(changes) == (change("b", "team-b"), 0)
    held = [(await take(changes))[1] for _ in range(5)]
    assert held == pytest.approx([5, 10, 15, 20, 25], abs=1), "one token every 1000 / RATE ms"


async def test_tenant_when_it_has_waited_its_time_then_it_is_as_any_other_again(changes: PendingChanges) -> None:
    for number in range(BURST + 1):
        changes.add_change(change(f"a{number}"))
    taken = [await take(changes) for _ in range(BURST + 1)]
    assert taken[-1][1] > 0
    changes.limiter = RateLimiter(RATE, BURST)
    changes.add_change(change("later"))
    assert await take(changes) == (change("later"), 0)


async def test_changes_when_of_a_resource_that_waits_then_the_latest_takes_its_turn(changes: PendingChanges) -> None:
    changes.add_change(change("a"))
    changes.add_change(change("b"))
    for generation in range(2, 1000):
        changes.add_change(change("a", generation=generation))
    assert len(changes) == 2
    assert await take(changes) == (change("a", generation=999), 0)
    assert await take(changes) == (change("b"), 0)


async def test_removal_when_a_change_of_it_waits_then_it_takes_its_turn(changes: PendingChanges) -> None:
    changes.add_change(change("a"))
    changes.add_change(gone("a"))
    assert await take(changes) == (gone("a"), 0)
    assert await nobody_may(changes)


async def test_change_when_dropped_then_it_costs_nothing(changes: PendingChanges) -> None:
    for number in range(1000):
        changes.add_change(change(f"a{number}"))
        changes.drop_change(f"team-a/a{number}")
    assert len(changes) == 0
    assert "team-a/a1" not in changes
    changes.add_change(change("b"))
    assert await take(changes) == (change("b"), 0)


async def test_list_when_it_is_being_read_then_nothing_of_it_goes_out_until_it_is_complete(
    changes: PendingChanges,
) -> None:
    changes.begin_list()
    changes.add_listed(change("a"))
    assert await nobody_may(changes)
    changes.end_list()
    assert await names(changes, 1) == ["team-a/a"]
    assert await changes.next_change() is None, "all of the list has gone out"


async def test_change_when_a_list_is_being_read_then_it_goes_out_at_once(changes: PendingChanges) -> None:
    changes.begin_list()
    changes.add_listed(change("a"))
    changes.add_change(change("new", "team-b"))
    assert await names(changes, 1) == ["team-b/new"]
    assert await nobody_may(changes)


async def test_change_when_it_may_be_of_the_list_that_is_read_then_the_list_is_not_out_before_it(
    changes: PendingChanges,
) -> None:
    changes.limiter = RateLimiter(0.001, 0)
    changes.begin_list()
    changes.add_change(change("changed"), of_list=True)
    changes.add_change(change("new"))
    changes.end_list()
    assert await names(changes, 1) == ["team-a/changed"], "without a token, as any other of a list"
    assert await changes.next_change() is None
    assert await nobody_may(changes)


async def test_list_when_changes_never_cease_then_it_goes_out_all_the_same(changes: PendingChanges) -> None:
    changes.limiter = RateLimiter(1e6, 1_000_000)
    changes.begin_list()
    for number in range(3):
        changes.add_listed(change(f"listed-{number}", "team-b"))
    changes.end_list()
    sent = []
    for number in range(3 * (CHANGES_PER_LISTED + 1)):
        changes.add_change(change(f"changed-{number}"))
        sent += await names(changes, 1)
    assert [uid for uid in sent if "listed" in uid] == [f"team-b/listed-{number}" for number in range(3)]


async def send_all(changes: PendingChanges, sent: list[str]) -> None:
    """Note the uids of what is taken, and "list" for the end of one."""
    while True:
        taken = await changes.next_change()
        sent.append(taken[0].uid if taken else "list")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the sender signals nothing
            await asyncio.sleep(0)


async def test_list_when_complete_then_all_of_it_goes_out_in_turns_beyond_any_rate_limit(
    changes: PendingChanges,
) -> None:
    sent: list[str] = []
    changes.limiter = RateLimiter(0.001, BURST)
    sending = asyncio.create_task(send_all(changes, sent))
    changes.begin_list()
    for number in range(10 * BURST):
        changes.add_listed(change(f"a{number}"))
    changes.add_listed(change("b", "team-b"))
    changes.end_list()
    await until(lambda: "list" in sent)
    sending.cancel()
    assert len(sent) == 10 * BURST + 2
    assert (sent[1], sent[-1]) == ("team-b/b", "list")


async def test_change_when_a_long_list_is_going_out_then_it_goes_first_and_pays_for_it(changes: PendingChanges) -> None:
    changes.limiter = RateLimiter(0.001, 1)
    changes.begin_list()
    for number in range(100):
        changes.add_listed(change(f"a{number}", f"team-{number}"))
    changes.end_list()
    await take(changes)
    for name in ("new", "one-too-many"):
        changes.add_change(change(name, "team-b"))
    assert await names(changes, 1) == ["team-b/new"]
    assert "team-b/one-too-many" not in await names(changes, 99)
    assert await changes.next_change() is None, "all of the list was taken"
    assert await nobody_may(changes)


async def test_list_when_long_then_it_goes_out_at_its_pace_and_changes_go_between(time: FakeClock) -> None:
    changes = PendingChanges("GitOpsDeployment", RateLimiter(RATE, BURST), RateLimiter(10, 2), clock=time)
    sent: list[str] = []
    sending = asyncio.create_task(send_all(changes, sent))
    changes.begin_list()
    for number in range(5):
        changes.add_listed(change(f"a{number}"))
    changes.end_list()
    await time.advance(0)
    assert sent == ["team-a/a0", "team-a/a1"]
    changes.add_change(change("new", "team-b"))
    await time.advance(0.01)
    assert sent[2:] == ["team-b/new"]
    await time.advance(0.1)
    assert sent[3:] == ["team-a/a2"]
    await time.advance(1)
    assert sent[4:] == ["team-a/a3", "team-a/a4", "list"]
    sending.cancel()


async def test_change_when_of_what_waits_in_a_list_then_it_goes_first_and_once(changes: PendingChanges) -> None:
    changes.begin_list()
    for name in ("a", "b"):
        changes.add_listed(change(name))
    changes.end_list()
    changes.add_change(change("b", generation=2))
    assert [(await take(changes))[0] for _ in range(2)] == [change("b", generation=2), change("a")]
    assert await changes.next_change() is None
    assert await nobody_may(changes)


async def test_list_when_what_is_left_of_it_is_dropped_then_it_is_out(changes: PendingChanges) -> None:
    changes.begin_list()
    changes.add_listed(change("a"))
    changes.end_list()
    assert changes.is_listed("team-a/a")
    changes.drop_change("team-a/a")
    assert not changes.is_listed("team-a/a")
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await changes.next_change() is None


@pytest.mark.parametrize("complete", [False, True], ids=["while-it-is-read", "while-it-goes-out"])
async def test_list_when_another_begins_then_what_waits_is_forgotten_but_for_removals(
    changes: PendingChanges, complete: bool
) -> None:
    changes.limiter = RateLimiter(0.001, 0)
    changes.add_change(change("changed"))
    changes.add_change(gone("gone"))
    changes.begin_list()
    changes.add_listed(change("of-the-interrupted-list"))
    if complete:
        changes.end_list()
    changes.begin_list()
    changes.add_listed(change("of-the-next"))
    changes.end_list()
    assert await names(changes, 2) == ["team-a/gone", "team-a/of-the-next"]
    assert await changes.next_change() is None
    assert await nobody_may(changes)


def test_change_when_its_kind_declares_parts_then_their_length_counts_too() -> None:
    def size(length: int) -> int:
        manifest = resource() | {"status": {"verdict": {"outcome": "x" * length}}}
        translate = Translator("local", GITOPS_DEPLOYMENT, spec_within(1024), REVIEWS.projection)
        return Change("u", "team-a", "web", 1, NOW, translate.changed(manifest, 1, NOW)).size

    assert size(5000) - size(0) == 5000


async def test_contents_when_there_is_no_room_for_them_then_only_which_resource_it_is_waits(
    changes: PendingChanges,
) -> None:
    size = change("a0").size
    changes.bytes = ReservedBytes(of_tenant=2 * size, of_all=3 * size)
    for item in (*(change(f"a{number}") for number in range(4)), change("b", "team-b"), change("c", "team-c")):
        changes.add_change(item)
    assert len(changes.bytes) == 3 * size
    changes.limiter = RateLimiter(RATE, 10)
    held = {item.uid: item.command is not None for item, _ in [await take(changes) for _ in range(6)]}
    of_a = {f"team-a/a{number}": number < 2 for number in range(4)}
    assert held == of_a | {"team-b/b": True, "team-c/c": False}
    assert len(changes.bytes) == 0


async def test_contents_when_replaced_dropped_or_forgotten_then_their_room_is_free(changes: PendingChanges) -> None:
    for name in ("a", "a", "b"):
        changes.add_change(change(name))
    assert len(changes.bytes) == 2 * change("a").size
    changes.add_change(gone("a"))
    changes.drop_change("team-a/b")
    assert len(changes.bytes) == 0
    changes.add_change(change("c"))
    changes.clear()
    assert len(changes.bytes) == 0
