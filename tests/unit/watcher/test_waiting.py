"""A tenant that changes too much waits with its latest states, and delays nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from services.common.kube import GITOPS_DEPLOYMENT
from services.watcher.allowance import Allowance
from services.watcher.commands import Translator, spec_within
from services.watcher.held_bytes import HeldBytes
from services.watcher.waiting import Change, Waiting
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


async def take(waiting: Waiting) -> tuple[Change, int]:
    async with asyncio.timeout(DEADLINE_SECONDS):
        taken = await waiting.take()
        assert taken is not None
        return taken


async def names(waiting: Waiting, count: int) -> list[str]:
    return [(await take(waiting))[0].uid for _ in range(count)]


async def nobody_may(waiting: Waiting) -> bool:
    """Whether who asks now has to wait."""
    asking = asyncio.ensure_future(waiting.take())
    for _ in range(3):
        await asyncio.sleep(0)
    done = asking.done()
    asking.cancel()
    return not done


@pytest.fixture
async def waiting() -> AsyncIterator[Waiting]:
    """Of a tenant with a burst of three changes."""
    waiting = Waiting("GitOpsDeployment", Allowance(RATE, BURST))
    yield waiting
    waiting.close()


async def test_changes_when_within_the_allowance_then_tenants_take_turns_and_nothing_is_held_back(
    waiting: Waiting,
) -> None:
    for item in (change("a1"), change("a2"), change("a3"), change("b1", "team-b")):
        waiting.add(item)
    taken = [await take(waiting) for _ in range(4)]
    assert [item.uid for item, _ in taken] == ["team-a/a1", "team-b/b1", "team-a/a2", "team-a/a3"]
    assert {held for _, held in taken} == {0}


async def test_tenant_when_beyond_its_allowance_then_others_go_on_and_its_changes_say_how_long_they_waited(
    waiting: Waiting,
) -> None:
    for number in range(BURST + 5):
        waiting.add(change(f"a{number}"))
    await names(waiting, BURST)
    assert await nobody_may(waiting)
    waiting.add(change("b", "team-b"))
    assert await take(waiting) == (change("b", "team-b"), 0)
    held = [(await take(waiting))[1] for _ in range(5)]
    assert held == sorted(held)
    assert held[-1] >= 4 * 1000 // RATE


async def test_tenant_when_it_has_waited_its_time_then_it_is_as_any_other_again(waiting: Waiting) -> None:
    for number in range(BURST + 1):
        waiting.add(change(f"a{number}"))
    taken = [await take(waiting) for _ in range(BURST + 1)]
    assert taken[-1][1] > 0
    waiting.allowance = Allowance(RATE, BURST)
    waiting.add(change("later"))
    assert await take(waiting) == (change("later"), 0)


async def test_changes_when_of_a_resource_that_waits_then_the_latest_takes_its_turn(waiting: Waiting) -> None:
    waiting.add(change("a"))
    waiting.add(change("b"))
    for generation in range(2, 1000):
        waiting.add(change("a", generation=generation))
    assert len(waiting) == 2
    assert await take(waiting) == (change("a", generation=999), 0)
    assert await take(waiting) == (change("b"), 0)


async def test_removal_when_a_change_of_it_waits_then_it_takes_its_turn(waiting: Waiting) -> None:
    waiting.add(change("a"))
    waiting.add(gone("a"))
    assert await take(waiting) == (gone("a"), 0)
    assert await nobody_may(waiting)


async def test_change_when_dropped_then_it_costs_nothing(waiting: Waiting) -> None:
    for number in range(1000):
        waiting.add(change(f"a{number}"))
        waiting.drop(f"team-a/a{number}")
    assert len(waiting) == 0
    assert "team-a/a1" not in waiting
    waiting.add(change("b"))
    assert await take(waiting) == (change("b"), 0)


async def test_list_when_it_is_being_read_then_nothing_goes_out_until_it_is_complete(waiting: Waiting) -> None:
    beginning = asyncio.ensure_future(waiting.begin_list())
    assert await nobody_may(waiting)
    await beginning
    waiting.add(change("a"))
    assert await nobody_may(waiting)


async def send_all(waiting: Waiting, sent: list[str]) -> None:
    """Note the uids of what is taken, and "list" for the end of one."""
    while True:
        taken = await waiting.take()
        sent.append(taken[0].uid if taken else "list")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the sender signals nothing
            await asyncio.sleep(0)


async def test_list_when_complete_then_all_of_it_goes_out_in_turns_beyond_any_allowance(waiting: Waiting) -> None:
    sent: list[str] = []
    waiting.allowance = Allowance(0.001, BURST)
    sending = asyncio.create_task(send_all(waiting, sent))
    await waiting.begin_list()
    for number in range(10 * BURST):
        waiting.add(change(f"a{number}"))
    waiting.add(change("b", "team-b"))
    waiting.end_list()
    await until(lambda: "list" in sent)
    sending.cancel()
    assert len(sent) == 10 * BURST + 2
    assert (sent[1], sent[-1]) == ("team-b/b", "list")


async def test_change_when_a_long_list_is_going_out_then_it_has_its_turn_and_pays_for_it(waiting: Waiting) -> None:
    waiting.allowance = Allowance(0.001, 1)
    beginning = asyncio.ensure_future(waiting.begin_list())
    assert await nobody_may(waiting)
    await beginning
    for number in range(100):
        waiting.add(change(f"a{number}"))
    waiting.end_list()
    await take(waiting)
    for name in ("new", "one-too-many"):
        waiting.add(change(name, "team-b"))
    assert "team-b/new" in await names(waiting, 2)
    assert "team-b/one-too-many" not in await names(waiting, 98)
    assert await waiting.take() is None, "all of the list was taken"
    assert await nobody_may(waiting)


async def test_list_when_what_is_left_of_it_is_dropped_then_it_is_out(waiting: Waiting) -> None:
    beginning = asyncio.ensure_future(waiting.begin_list())
    assert await nobody_may(waiting)
    await beginning
    waiting.add(change("a"))
    waiting.end_list()
    assert waiting.is_listed("team-a/a")
    asking = asyncio.ensure_future(waiting.take())
    waiting.drop("team-a/a")
    assert not waiting.is_listed("team-a/a")
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await asking is None


async def test_list_when_it_begins_while_changes_are_held_back_then_they_go_out_first(waiting: Waiting) -> None:
    sent: list[str] = []
    for number in range(10 * BURST):
        waiting.add(change(f"a{number}"))
    sending = asyncio.create_task(send_all(waiting, sent))
    await until(lambda: len(sent) == BURST)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await waiting.begin_list()
    sending.cancel()
    assert sent == [f"team-a/a{number}" for number in range(10 * BURST)]


@pytest.mark.parametrize("complete", [False, True], ids=["while-it-is-read", "while-it-goes-out"])
async def test_list_when_another_begins_then_what_is_left_of_it_is_forgotten(waiting: Waiting, complete: bool) -> None:
    beginning = asyncio.ensure_future(waiting.begin_list())
    assert await nobody_may(waiting)
    await beginning
    waiting.add(change("of-the-interrupted-list"))
    if complete:
        waiting.end_list()
    await waiting.begin_list()
    waiting.add(change("of-the-next"))
    waiting.end_list()
    assert await names(waiting, 1) == ["team-a/of-the-next"]
    assert await waiting.take() is None
    assert await nobody_may(waiting)


async def test_contents_when_there_is_no_room_for_them_then_only_which_resource_it_is_waits(waiting: Waiting) -> None:
    size = change("a0").size
    waiting.bytes = HeldBytes(of_tenant=2 * size, of_all=3 * size)
    for item in (*(change(f"a{number}") for number in range(4)), change("b", "team-b"), change("c", "team-c")):
        waiting.add(item)
    assert len(waiting.bytes) == 3 * size
    waiting.allowance = Allowance(RATE, 10)
    held = {item.uid: item.command is not None for item, _ in [await take(waiting) for _ in range(6)]}
    of_a = {f"team-a/a{number}": number < 2 for number in range(4)}
    assert held == of_a | {"team-b/b": True, "team-c/c": False}
    assert len(waiting.bytes) == 0


async def test_contents_when_replaced_dropped_or_forgotten_then_their_room_is_free(waiting: Waiting) -> None:
    for name in ("a", "a", "b"):
        waiting.add(change(name))
    assert len(waiting.bytes) == 2 * change("a").size
    waiting.add(gone("a"))
    waiting.drop("team-a/b")
    assert len(waiting.bytes) == 0
    waiting.add(change("c"))
    waiting.close()
    assert len(waiting.bytes) == 0
