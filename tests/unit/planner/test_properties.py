"""Whatever happens, in whatever batches, however often: the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.api import FINALIZER
from services.planner.coalesce import coalesce
from services.planner.events import Event
from tests.unit.planner.given import Applied, Failed, Removed, changed, gone, observed, resync, spec, status
from tests.unit.planner.world import FLEET, World

NAMES = ("web", "api")
NAMESPACES = ("team-a", "team-b")
ONE_INSTANCE = FLEET[:1]


def a_change(second: int) -> st.SearchStrategy[Event]:
    """A change of one of few resources, so that much happens to each."""
    return st.builds(
        lambda name, namespace, incarnation, path, deleting: changed(
            second,
            name,
            uid=f"{namespace}-{name}-{incarnation}",
            namespace=namespace,
            generation=second,
            deleting=deleting,
            finalizers=(FINALIZER,) if deleting else (),
            content=spec(source={"path": path, "repoURL": f"https://g/{path}"}),
        ),
        st.sampled_from(NAMES),
        st.sampled_from(NAMESPACES),
        st.integers(1, 2),
        st.sampled_from(["a", "b", "/"]),
        st.booleans(),
    )


def an_end(second: int) -> st.SearchStrategy[Event]:
    return st.builds(
        lambda name, namespace, incarnation: gone(
            second, name, uid=f"{namespace}-{name}-{incarnation}", namespace=namespace
        ),
        st.sampled_from(NAMES),
        st.sampled_from(NAMESPACES),
        st.integers(1, 2),
    )


def a_report(second: int) -> st.SearchStrategy[Event]:
    reports: list[Any] = [
        status(second, sync={"status": "Synced"}),
        status(second, sync={"status": "OutOfSync"}, conditions=[{"type": "SyncError", "message": "no"}]),
        Applied("of-another-manifest"),
        Failed("of-another-manifest", permanent=True, message="no"),
        Removed(forced=False),
    ]
    return st.builds(
        lambda report, name, namespace, incarnation: observed(
            second,
            report,
            instance=ONE_INSTANCE[0].id,
            name=f"gitopsdepl-{namespace}-{name}-{incarnation}",
            namespace=namespace,
        ),
        st.sampled_from(reports),
        st.sampled_from(NAMES),
        st.sampled_from(NAMESPACES),
        st.integers(1, 2),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A log: events of growing time and version."""
    length = draw(st.integers(0, 14))
    kinds = (a_change, a_change, an_end, a_report)
    return [draw(draw(st.sampled_from(kinds))(second)) for second in range(1, length + 1)]


def replayed(history: list[Event], *batch_sizes: int) -> World:
    world, start = World(fleet=ONE_INSTANCE), 0
    for size in [*batch_sizes, len(history)]:
        world.take(*history[start : start + size])
        start += size
    return world


@settings(max_examples=150, deadline=None)
@given(histories())
def test_log_when_replayed_then_it_makes_the_same_rows_and_never_contradicts_itself(history: list[Event]) -> None:
    one, other = replayed(history), replayed(history)
    assert one.rows() == other.rows()
    for row in one.engine.values():
        owner = one.deployments.get(next((d.id for d in one.deployments.values() if row.name.endswith(d.uid)), None))  # type: ignore[arg-type]
        if row.kind == "Application":
            assert owner is not None
            assert (row.desired == "present") == owner.wanted
    for status_row in one.workspace.values():
        assert any(d.uid == status_row.uid and d.present for d in one.deployments.values())


@settings(max_examples=150, deadline=None)
@given(histories(), st.integers(0, 14))
def test_last_batch_when_taken_twice_then_the_second_time_changes_nothing(history: list[Event], cut: int) -> None:
    world = replayed(history[:cut], *([1] * cut))
    batch = history[cut:]
    world.take(*batch)
    before = world.rows()
    latest = coalesce(batch)
    for event in latest:
        world.take(event)
    assert _what_counts(world.rows()) == _what_counts(before) or _has_removals(batch)


@settings(max_examples=150, deadline=None)
@given(histories())
def test_desired_state_when_commands_come_one_by_one_or_at_once_then_it_is_the_same(history: list[Event]) -> None:
    commands = [event for event in history if not hasattr(event.message, "observed_at")]
    at_once, one_by_one = replayed(commands), replayed(commands, *([1] * len(commands)))
    assert _wanted(at_once) == _wanted(one_by_one)


@settings(max_examples=100, deadline=None)
@given(st.lists(a_change(1), max_size=6, unique_by=lambda event: event.message.event.name), st.randoms())
def test_changes_of_different_resources_when_in_another_order_then_the_rows_are_the_same(
    events: list[Event], random: Any
) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)
    assert replayed(events).rows() == replayed(shuffled).rows()


@settings(max_examples=100, deadline=None)
@given(histories())
def test_resync_when_everything_was_seen_then_nothing_changes(history: list[Event]) -> None:
    world = replayed(history)
    seen = [
        replace(event, message=replace(event.message, event=replace(event.message.event, epoch=99)))
        for event in _current(world, history)
    ]
    before = _wanted(world)
    world.take(*seen, resync(100, epoch=99))
    assert _wanted(world) == before


def _current(world: World, history: list[Event]) -> list[Event]:
    """The newest change of each CR that exists: what a complete list would show."""
    newest = {
        event.message.event.uid: event for event in history if hasattr(event.message, "event") and _is_change(event)
    }
    present = {deployment.uid for deployment in world.deployments.values() if deployment.present}
    return [event for uid, event in newest.items() if uid in present]


def _is_change(event: Event) -> bool:
    return hasattr(getattr(event.message, "event", None), "generation")


def _has_removals(events: list[Event]) -> bool:
    return any(isinstance(getattr(event.message, "event", None), Removed) for event in events)


def _wanted(world: World) -> dict[Any, Any]:
    return {key: row.digest for key, row in world.engine.items() if row.desired == "present"}


def _what_counts(rows: dict[str, Any]) -> dict[str, Any]:
    return {name: rows[name] for name in ("tenants", "deployments", "engine", "workspace")}
