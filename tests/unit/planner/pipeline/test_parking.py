"""A rule that fails on one tenant stops only that one, and nothing of it is lost until the rule is mended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.common.messages import Removed
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.kinds.shared.catalogue import TENANT_PARKED
from services.planner.domain import plan as plan_module
from services.planner.domain.changes import BatchChanges, Changes
from services.planner.domain.dormancy import Lookup
from services.planner.domain.events import Due, Event, SweepScope, Unseen
from services.planner.domain.ids import tenant_id
from services.planner.pipeline import batch_planning, parking
from services.planner.pipeline.batch_planning import plan_batch, split_at_markers
from services.planner.pipeline.coalesce import coalesce
from services.planner.pipeline.parking import compacted, kept_event, parked_event, resolved
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    NAMESPACE,
    SYNC_RUN,
    WORKSPACE,
    Applied,
    Checked,
    Failed,
    at,
    changed,
    credential,
    environment,
    gone,
    observed,
    resync,
    secret,
    spec,
    status,
    sync_run,
)
from tests.unit.planner.tenant import MANUAL, conditions, moved
from tests.unit.planner.world import NOW, World

BROKEN, FINE = "team-a", "team-b"
ID = tenant_id("a", "b")


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A rule that fails on one tenant; calling it mends the rule."""
    compile_deployments = plan_module.compile_deployments

    def failing(planned: Any, context: Any) -> Any:
        if planned.state.tenant.namespace == BROKEN:
            raise ZeroDivisionError("token of the tenant")
        return compile_deployments(planned, context)

    monkeypatch.setattr(plan_module, "compile_deployments", failing)
    return lambda: monkeypatch.setattr(plan_module, "compile_deployments", compile_deployments)


def names(world: World) -> set[str]:
    return {row.name for row in world.deployments.values()}


def retry(world: World) -> bool:
    """As the loop does it: whether the tenant goes on."""
    (parked,) = world.parked.values()
    events = coalesce([*(kept_event(row) for row in world.parked_events), *world.shown_of(parked.tenant_id)])
    world.write_changes(BatchChanges(other=Changes(unparked=(parked.tenant_id,))))
    for part in split_at_markers(events):
        changes = plan_batch(part, world, world.policy, NOW, (parked.workspace, parked.namespace))
        if changes.other.parked:
            world.abandon_transaction()
            return False
        world.write_changes(changes)
    world.save_changes(resolved(parked, world.find_parked_statuses(parked), NOW))
    world.take_due_sweeps()
    return True


@pytest.mark.usefixtures("defect")
def test_batch_when_a_rule_fails_on_one_tenant_then_the_others_are_planned_and_that_is_told(world: World) -> None:
    with capture_logs() as lines:
        world.take(changed(1, namespace=BROKEN), changed(2, "api", uid="uid-2", namespace=FINE))
    assert names(world) == {"api"}
    (parked,) = world.parked.values()
    assert parked.tenant_id == tenant_id(WORKSPACE, BROKEN)
    assert [(line["namespace"], line["log_level"], line["error"]) for line in lines] == [
        (BROKEN, "error", parked.error)
    ]


@pytest.mark.usefixtures("defect")
def test_tenant_when_a_rule_fails_on_it_then_type_and_place_are_told_and_none_of_its_values(world: World) -> None:
    with capture_logs() as lines:
        world.take(changed(1, namespace=BROKEN))
    (parked,) = world.parked.values()
    assert re.match(
        r"ZeroDivisionError at planner/pipeline/test_parking\.py:\d+ < planner/domain/plan\.py:\d+", parked.error
    )
    assert "token" not in f"{parked}{lines}"
    assert not any("exc_info" in line for line in lines)


def test_tenant_when_it_is_parked_then_later_events_are_kept_in_order_and_planned_when_the_rule_is_mended(
    world: World, defect: Callable[[], None]
) -> None:
    world.take(changed(1, namespace=BROKEN))
    world.take(changed(2, generation=2, namespace=BROKEN), changed(3, "more", uid="uid-2", namespace=BROKEN))
    world.take(gone(4, "more", uid="uid-2", namespace=BROKEN))
    world.take(replace(gone(5), message=Due(WORKSPACE, BROKEN, ID)))
    assert (names(world), len(world.parked_events)) == (set(), 4)
    assert not retry(world)
    defect()
    world.take(changed(5, "last", uid="uid-3", namespace=BROKEN))
    assert names(world) == set()
    assert retry(world)
    assert {(row.name, row.generation) for row in world.deployments.values()} == {("web", 2), ("last", 1)}
    world.take(changed(6, "new", uid="uid-4", namespace=BROKEN))
    assert "new" in names(world)


def test_tenant_when_it_is_parked_then_what_it_had_stays(world: World, defect: Callable[[], None]) -> None:
    defect()
    world.take(changed(1, namespace=BROKEN))
    before = world.rows()
    with pytest.MonkeyPatch.context() as again:
        again.setattr(plan_module, "compile_deployments", _fail)
        world.take(gone(2, namespace=BROKEN), resync(3, epoch=9))
    assert world.rows() == before
    assert retry(world)
    assert [row.desired for row in world.engine.values() if row.kind == "Application"] == ["absent"]


def test_tenant_when_it_was_in_memory_and_is_parked_then_no_event_overtakes_those_that_are_kept(world: World) -> None:
    world.take(changed(1, namespace=BROKEN))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", _fail)
        world.take(changed(2, "x", uid="uid-x", namespace=BROKEN))
    world.take(gone(3, "x", uid="uid-x", namespace=BROKEN), changed(4, "y", uid="uid-y", namespace=BROKEN))
    assert names(world) == {"web"}
    assert retry(world)
    assert {row.name for row in world.deployments.values() if row.present} == {"web", "y"}


def test_marker_when_a_tenant_is_parked_then_others_are_swept_and_it_is_once_it_goes_on(world: World) -> None:
    crowd = [changed(1, f"w-{number}", uid=f"uid-{number}", namespace=BROKEN) for number in range(100)]
    healthy = [changed(1, f"h-{number}", uid=f"uid-h-{number}", namespace=FINE) for number in range(60)]
    world.take(*crowd, *healthy)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", _fail)
        world.take(changed(2, "w-0", uid="uid-0", generation=2, namespace=BROKEN))
    shown = [replace(each, message=_of_epoch(each, 2)) for each in (*crowd[:90], *healthy[:55])]
    changes = world.take(*shown, resync(3, epoch=2))
    assert changes.refused_sweeps == ()
    assert _present(world, "h-") == 55
    assert _present(world, "w-") == 100
    assert retry(world)
    assert _present(world, "w-") == 90


def test_marker_when_nothing_of_a_parked_tenant_was_shown_then_the_guard_holds_once_it_goes_on(world: World) -> None:
    world.take(*(changed(1, f"w-{number}", uid=f"uid-{number}", namespace=BROKEN) for number in range(50)))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(plan_module, "compile_deployments", _fail)
        world.take(changed(2, "w-0", uid="uid-0", generation=2, namespace=BROKEN))
    world.take(resync(3, epoch=2))
    assert retry(world)
    assert _present(world, "w-") == 50


PARKED = ("True", "ErrorOccurred", TENANT_PARKED.message)
SOLVED = ("False", "ErrorOccurredResolved", "")
"""What a deployment shows then."""


def told(world: World, kind: str, name: str) -> dict[str, tuple[str, str, str]]:
    return conditions(world, kind, name) if any(key[2:] == (kind, name) for key in world.workspace) else {}


def full() -> World:
    """A tenant with a resource of each kind, and a deployment with an error of its own."""
    world = World()
    world.take(secret(1), environment(2), secret(3, "login", "repository-credential"), credential(4))
    world.take(
        changed(5, content=MANUAL), sync_run(6), changed(7, "bad", uid="uid-2", content=spec(source={"path": "/"}))
    )
    world.take(changed(8, "good", uid="uid-3"))
    return world


RESOURCES = [
    (GITOPS_DEPLOYMENT.kind, "web"),
    (GITOPS_DEPLOYMENT.kind, "bad"),
    (GITOPS_DEPLOYMENT.kind, "good"),
    (ENVIRONMENT, "prod"),
    (CREDENTIAL, "login"),
    (SYNC_RUN, "now"),
]


@pytest.mark.parametrize(("kind", "name"), RESOURCES)
def test_resource_when_its_tenant_is_parked_then_it_shows_that_until_the_tenant_goes_on(kind: str, name: str) -> None:
    world, unbroken = full(), full()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "compile_deployments", _fail)
        world.take(changed(9, generation=2, content=MANUAL))
    own = told(unbroken, kind, name)
    assert told(world, kind, name) == own | {"ErrorOccurred": PARKED}
    assert retry(world)
    assert told(world, kind, name) == {"ErrorOccurred": SOLVED} | own


def test_resource_when_it_is_new_and_its_tenant_is_parked_then_it_shows_that_until_it_is_gone(world: World) -> None:
    kind = GITOPS_DEPLOYMENT.kind
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "compile_deployments", _fail)
        world.take(changed(1), secret(1))
        world.take(changed(2, "api", uid="uid-2"), changed(2, "brief", uid="uid-3"), gone(2, "brief", uid="uid-0"))
        assert [told(world, kind, name) for name in ("web", "api", "brief")] == [{"ErrorOccurred": PARKED}] * 3
        world.take(gone(3, "api", uid="uid-2"))
        assert {key[-1] for key in world.workspace} == {"web", "brief"}
    assert retry(world)
    assert told(world, kind, "web") == {"ErrorOccurred": SOLVED}
    world.take(gone(5), gone(5, "brief", uid="uid-3"))
    assert not any(row.present for row in world.deployments.values())


def test_status_when_it_cannot_be_read_then_the_tenant_is_parked_and_shows_nothing_but_that() -> None:
    world = full()
    (key,) = [key for key in world.workspace if key[-1] == "bad"]
    world.workspace[key] = replace(world.workspace[key], status="no JSON")
    world.memory.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_module, "compile_deployments", _fail)
        world.take(changed(9, generation=2, content=MANUAL))
    assert conditions(world, GITOPS_DEPLOYMENT.kind, "bad") == {"ErrorOccurred": PARKED}


def test_tenant_when_showing_that_it_is_parked_fails_too_then_it_is_parked_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "compile_deployments", _fail)
    monkeypatch.setattr(batch_planning, "parked_statuses", _fail)
    with capture_logs() as lines:
        world.take(changed(1), changed(1, "api", uid="uid-2", namespace=FINE))
    assert (len(world.parked), len(world.parked_events), world.workspace) == (2, 2, {})
    assert [line["event"] for line in lines].count("a parked tenant does not show it") == 2


def test_kept_events_when_a_resource_changes_again_and_again_then_its_newest_state_is_kept_of_each_resync() -> None:
    crowd = [changed(number, generation=number) for number in range(1, 60)]
    rows = [parked_event(ID, event) for event in (*crowd, sync_run(60), resync(61, epoch=9), *crowd, sync_run(62))]
    kept, beyond = compacted(rows)
    assert [kept_event(row) for row in kept] == [crowd[-1], sync_run(60), resync(61, epoch=9), crowd[-1], sync_run(62)]
    assert (beyond, compacted(kept)) == ([], (kept, []))


def test_kept_events_when_they_are_too_many_then_the_end_is_given_up_with_its_marker_however_often_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking, "MOST_KEPT", 3)
    events = [changed(1, f"w-{number}", uid=f"uid-{number}") for number in range(5)]
    rows = [parked_event(ID, event) for event in (*events, resync(2, epoch=9))]
    kept, beyond = compacted(rows)
    assert ([*kept, *beyond], len(kept)) == (rows, 3)
    later = [parked_event(ID, event) for event in (events[0], resync(3, epoch=9))]
    assert compacted([*kept, *later]) == (kept, later)


def test_kept_events_when_they_are_too_long_then_the_end_is_given_up_with_its_marker_however_often_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A short one that would still fit is given up, too, once a longer one before it was."""
    events = [changed(1, f"w-{number}", uid=f"uid-{number}") for number in range(3)]
    rows = [parked_event(ID, event) for event in (*events, resync(2, epoch=9))]
    monkeypatch.setattr(parking, "MOST_KEPT_BYTES", len(rows[0].message) + 1)
    kept, beyond = compacted(rows)
    assert ([*kept, *beyond], len(kept)) == (rows, 2)
    marker = [parked_event(ID, resync(3, epoch=9))]
    assert compacted([*kept, *marker]) == (kept, marker)


def test_kept_events_when_they_cannot_be_read_then_there_are_no_more_than_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parking, "MOST_KEPT", 3)
    rows = [replace(parked_event(ID, changed(1)), message=f"no JSON {number}") for number in range(5)]
    assert compacted(rows) == (rows[:3], rows[3:])


def _present(world: World, prefix: str) -> int:
    return sum(row.present and row.name.startswith(prefix) for row in world.deployments.values())


def _of_epoch(event: Event, epoch: int) -> Any:
    message: Any = event.message
    return replace(message, event=replace(message.event, epoch=epoch))


def test_tenant_when_its_dormant_rows_cannot_be_named_then_only_that_one_is_parked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(state: Any, *_: Any) -> Lookup:
        if state.tenant.namespace == BROKEN:
            raise KeyError("a kind")
        return Lookup()

    monkeypatch.setattr(batch_planning, "lookup_for", failing)
    world.take(changed(1, namespace=BROKEN), changed(2, "api", uid="uid-2", namespace=FINE))
    assert names(world) == {"api"}
    assert [parked.namespace for parked in world.parked.values()] == [BROKEN]


def _fail(*_: Any) -> Any:
    raise KeyError("a rule")


SCOPE = SweepScope("local", "GitOpsDeployment", 3, 9)


@pytest.mark.parametrize(
    "event",
    [
        changed(1, finalizers=("a", "b"), held_back_ms=3),
        gone(2),
        secret(3),
        *(
            observed(4, each, instance="engine-1")
            for each in (
                Applied("d"),
                Failed("d", permanent=True, message="no"),
                Removed(forced=True),
                status(5, sync={"status": "ü"}),
                Checked("d", "Succeeded", ""),
                moved("now", "Succeeded", started="2026-05-04T12:00:00Z"),
            )
        ),
        resync(6, epoch=9),
        replace(gone(7), message=Unseen(WORKSPACE, NAMESPACE, SCOPE, frozenset({ID}), at(7))),
    ],
    ids=lambda event: type(getattr(event.message, "event", event.message)).__name__,
)
def test_event_when_it_is_kept_as_text_then_it_is_the_same_afterwards(event: Event) -> None:
    assert kept_event(parked_event(ID, event)) == event
