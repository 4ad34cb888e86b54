"""Whatever a cluster does, in whatever batches it arrives, however often: the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services.common.messages import Command, ResourceChanged
from services.kinds.shared.api_group import FINALIZER
from services.planner.domain.events import Event
from tests.unit.examples import in_proportion
from tests.unit.planner.given import Failed, changed, gone, observed, resync, spec, status
from tests.unit.planner.world import FLEET, World

PLACES = [("team-a", "web"), ("team-a", "api"), ("team-b", "web")]
StepResult = tuple[tuple[str, str], str, str]
steps = st.tuples(
    st.sampled_from(PLACES), st.sampled_from(["change", "delete", "end", "report"]), st.sampled_from("abc")
)
valid_histories = st.lists(steps, max_size=16).map(lambda taken: list(history(taken)))


def history(taken: Sequence[StepResult]) -> Iterator[Event]:
    """What a real cluster and a real agent would say: a name has one incarnation at a time, and uids never return."""
    incarnations: Counter[tuple[str, str]] = Counter()
    living: set[tuple[str, str]] = set()
    for second, (place, action, letter) in enumerate(taken, start=1):
        namespace, name = place
        if action == "change" and place not in living:
            living.add(place)
            incarnations[place] += 1
        uid = f"{namespace}-{name}-{incarnations[place]}"
        if place in living:
            yield _event(second, action, letter, (namespace, name, uid))
        if action == "end":
            living.discard(place)


def _event(second: int, action: str, letter: str, identity: tuple[str, str, str]) -> Event:
    namespace, name, uid = identity
    if action == "end":
        return gone(second, name, uid=uid, namespace=namespace)
    if action == "report":
        report = {
            "a": status(second, sync={"status": "Synced"}),
            "b": status(second, sync={"status": "OutOfSync"}, conditions=[{"type": "SyncError", "message": "no"}]),
            "c": Failed("of-another-manifest", permanent=True, message="no"),
        }[letter]
        return observed(second, report, instance=FLEET[0].id, name=f"gitopsdepl-{uid}", namespace=namespace)
    return changed(
        second,
        name,
        uid=uid,
        namespace=namespace,
        generation=second,
        deleting=action == "delete",
        finalizers=(FINALIZER,),
        content=spec(source={"path": letter, "repoURL": f"https://git.example.com/{letter}"}),
    )


def replayed(events: Sequence[Event], *batch_sizes: int) -> World:
    """The rows that ``events`` make, cut into batches of these sizes and one of the rest."""
    world, start = World(fleet=FLEET[:1]), 0
    for size in [*batch_sizes, len(events)]:
        world.take(*events[start : start + size])
        start += size
    return world


def wanted(world: World) -> dict[Any, str]:
    """Applications that shall exist. The AppProject of one that is going stays until it is gone."""
    rows = world.engine.items()
    return {key: row.digest for key, row in rows if row.desired == "present" and row.kind == "Application"}


def without_audit(world: World) -> dict[str, Any]:
    return {name: rows for name, rows in world.rows().items() if name != "audit_records"}


@settings(max_examples=in_proportion(200), deadline=None)
@given(valid_histories)
def test_rows_when_a_log_was_taken_then_they_do_not_contradict_each_other(events: list[Event]) -> None:
    world = replayed(events, *([1] * len(events)))
    by_uid = {deployment.uid: deployment for deployment in world.deployments.values()}
    for row in world.engine.values():
        if row.kind == "Application":
            assert (row.desired == "present") == by_uid[row.name.removeprefix("gitopsdepl-")].is_active
    assert all(by_uid[row.uid].present for row in world.workspace.values())


@settings(max_examples=in_proportion(200), deadline=None)
@given(valid_histories, st.lists(st.integers(1, 5), max_size=5))
def test_desired_state_when_a_log_is_cut_into_other_batches_then_it_is_the_same(
    events: list[Event], batch_sizes: list[int]
) -> None:
    assert wanted(replayed(events)) == wanted(replayed(events, *batch_sizes))


@settings(max_examples=in_proportion(200), deadline=None)
@given(valid_histories, st.integers(0, 16))
def test_rows_when_a_prefix_of_the_log_is_taken_twice_then_they_are_the_same(events: list[Event], cut: int) -> None:
    prefix = events[:cut]
    world = replayed(prefix, *([1] * len(prefix)))
    before = without_audit(world)
    for event in prefix:
        world.take(event)
    assert without_audit(world) == before


@settings(max_examples=in_proportion(200), deadline=None)
@given(valid_histories, st.randoms())
def test_rows_when_commands_of_different_resources_arrive_in_another_order_then_they_are_the_same(
    events: list[Event], random: Any
) -> None:
    commands = [event for event in events if isinstance(event.message, Command)]
    assert wanted(replayed(commands)) == wanted(replayed(_interleaved(commands, random)))


@settings(max_examples=in_proportion(200), deadline=None)
@given(valid_histories)
def test_resync_when_it_shows_all_there_is_then_nothing_changes(events: list[Event]) -> None:
    world = replayed(events)
    before = wanted(world)
    world.take(*_list_of(world, events, epoch=99), resync(100, epoch=99))
    assert wanted(world) == before


def _interleaved(commands: Sequence[Event], random: Any) -> list[Event]:
    """Another order that keeps that of each resource."""
    queues: dict[str, list[Event]] = {}
    for event in commands:
        queues.setdefault(f"{event.message.namespace}/{event.message.event.name}", []).append(event)  # type: ignore[union-attr]
    order = []
    while queues:
        key = random.choice(sorted(queues))
        order.append(queues[key].pop(0))
        queues = {name: rest for name, rest in queues.items() if rest}
    return order


def _list_of(world: World, events: Sequence[Event], epoch: int) -> list[Event]:
    """The newest change of each CR that exists, as a complete list shows it."""
    present = {deployment.uid for deployment in world.deployments.values() if deployment.present}
    newest: dict[str, Event] = {}
    for event in events:
        match event.message:
            case Command(event=ResourceChanged(uid=uid) as change) as command if uid in present:
                newest[uid] = replace(event, message=replace(command, event=replace(change, epoch=epoch)))
    return list(newest.values())
