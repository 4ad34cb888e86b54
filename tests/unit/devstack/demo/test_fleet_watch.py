"""An operator's eyes and hands in the demo: what was not seen, or was refused, ends it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
import typer

from devstack.demo import fleet_watch
from devstack.demo.fleet_watch import watched_fleet
from services.cli.fleet import engine_lifecycle
from services.cli.fleet.fleet_view import FleetSnapshot
from services.common.errors import Unavailable
from tests.unit.cli.fleet.test_fleet_view import FLEET, ONE

ENVIRONMENT = {"DATABASE_READER_URL": "postgresql://gitops_reader@localhost/gitops?sslmode=disable"}
BEFORE = FleetSnapshot(FLEET)
AFTER = FleetSnapshot(replace(FLEET, instances={"one": replace(ONE, state="draining")}))


@pytest.fixture(autouse=True)
def _looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two looks, which differ; what is seen then does not change any more."""
    seen = [BEFORE]
    monkeypatch.setattr(fleet_watch, "load_snapshot", lambda _: seen.pop() if seen else AFTER)
    monkeypatch.setattr(fleet_watch, "LOOK_EVERY_SECONDS", 0)
    monkeypatch.setenv("DATABASE_READER_URL", "")


async def test_watch_when_what_is_waited_for_is_seen_then_it_goes_on_and_has_told_of_it() -> None:
    said: list[str] = []
    async with watched_fleet(ENVIRONMENT, said.append) as watch:
        await watch.until("one drains", lambda snapshot: snapshot.fleet.instances["one"].state == "draining")
    assert said == ["  one is draining"]


async def test_watch_when_what_is_waited_for_is_not_seen_in_time_then_that_is_named() -> None:
    with pytest.raises(Unavailable, match=r"not within 0\.05 s: one is retired"):
        async with watched_fleet(ENVIRONMENT, lambda _: None) as watch:
            await watch.until("one is retired", lambda snapshot: snapshot.fleet.instances["one"].is_retired, 0.05)


async def test_watch_when_a_look_began_before_the_call_then_what_it_shows_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, ends = threading.Event(), threading.Event()
    early = [AFTER]

    def slow(_: str) -> FleetSnapshot:
        began.set()
        ends.wait()
        return early.pop() if early else BEFORE

    async with watched_fleet(ENVIRONMENT, lambda _: None) as watch:
        monkeypatch.setattr(fleet_watch, "load_snapshot", slow)
        await asyncio.to_thread(began.wait)
        asyncio.get_running_loop().call_soon(ends.set)
        with pytest.raises(Unavailable, match="one drains"):
            await watch.until("one drains", lambda snapshot: snapshot.fleet.instances["one"].state == "draining", 0.2)


async def test_watch_when_the_fleet_can_no_longer_be_looked_at_then_that_is_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: str) -> FleetSnapshot:
        raise Unavailable("the database is gone")

    async def watching() -> None:
        async with watched_fleet(ENVIRONMENT, lambda _: None) as watch:
            monkeypatch.setattr(fleet_watch, "load_snapshot", broken)
            await watch.until("one is retired", lambda snapshot: snapshot.fleet.instances["one"].is_retired, 0.5)

    with pytest.raises(Unavailable, match="the database is gone"):
        await watching()


async def test_order_when_it_is_carried_out_then_its_command_was_said_and_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[object] = []
    monkeypatch.setattr(engine_lifecycle, "give_order", lambda order, *_, **__: given.append(order.id))
    said: list[str] = []
    async with watched_fleet(ENVIRONMENT, said.append) as watch:
        await watch.order("drain one")
    assert given == ["one"]
    assert "$ gitopsctl engines drain one" in said


async def test_order_when_it_is_refused_then_the_demo_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise typer.Exit(1)

    monkeypatch.setattr(engine_lifecycle, "give_order", refused)
    with pytest.raises(Unavailable, match="gitopsctl engines drain one: refused"):
        async with watched_fleet(ENVIRONMENT, lambda _: None) as watch:
            await watch.order("drain one")
