"""Bindings whose Application is missing, planned: when that counts, what they say, and when they go."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.common.times import rfc3339
from services.kinds.application.kind import APPLICATION
from services.kinds.registry import REGISTRY
from services.kinds.snapshot_environment_binding.missing_application import KnownApplications
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy
from services.planner.domain.steps.child_objects import UNSEEN_AFTER
from services.planner.rows.compiled import ChildRow
from tests.unit.kinds.snapshot_environment_binding.test_binding_planned import KEYS, binding, condition, environment
from tests.unit.planner.given import at, resource, resource_gone
from tests.unit.planner.workspace import Workspace
from tests.unit.planner.world import World

BEGIN = 1_000_000
PATIENCE = round(Policy().binding_patience.total_seconds())
KEY = (BINDING.kind, "web")

NAMED: dict[str, tuple[set[str], set[str], bool, bool, bool]] = {
    "it is there": ({"shop"}, set(), True, True, False),
    "it was there until now": (set(), {"shop"}, False, False, True),
    "others are there": ({"other"}, set(), True, False, True),
    "others are there, and perhaps more than are known": ({"other"}, set(), False, False, False),
    "none was ever told of": (set(), set(), False, False, False),
    "it was missing before": (set(), set(), False, True, True),
}


@pytest.mark.parametrize(("present", "gone", "are_all", "was_missing", "is_missing"), NAMED.values(), ids=NAMED)
def test_application_when_so_much_is_known_of_its_namespace_then_it_is_missing_or_nobody_knows(
    present: set[str], gone: set[str], *, are_all: bool, was_missing: bool, is_missing: bool
) -> None:
    known = KnownApplications(frozenset(present), frozenset(gone), are_all=are_all)
    assert known.is_missing("shop", was_missing=was_missing) == is_missing


def application(second: int, name: str = "shop", **facts: Any) -> Event:
    return resource(second, APPLICATION.kind, name, {}, generation=second, **facts)


def gone(second: int, name: str = "shop") -> Event:
    return resource_gone(second, APPLICATION.kind, name)


@pytest.fixture
def ours() -> Workspace:
    """A namespace with an application whose binding has deployed a component."""
    workspace = Workspace(second=BEGIN)
    workspace.take(environment(BEGIN), application(BEGIN + 1), binding(BEGIN + 2))
    workspace.second = BEGIN + 3
    workspace.owners["uid-web"] = binding(BEGIN + 2)
    workspace.settle()
    workspace.pass_time(1)
    return workspace


def lose_application(workspace: Workspace) -> None:
    workspace.take(gone(workspace.second))


def removal(workspace: Workspace) -> ChildRow | None:
    """The row by which the binding is to be deleted."""
    row = workspace.rows().get(KEY)
    assert row is None or (row.is_unowned, row.desired, row.uid) == (True, "absent", "uid-web")
    return row


def test_binding_when_its_application_is_deleted_then_it_says_until_when_it_stays_and_works_on(
    ours: Workspace,
) -> None:
    missed_at = ours.second
    lose_application(ours)
    status, reason, message = condition(ours.world)
    assert (status, reason) == ("False", "ApplicationNotFound")
    assert message.startswith("Application 'shop' does not exist; if it is not there at ")
    assert rfc3339(at(missed_at + PATIENCE)) in message
    ours.remove(KEYS["cart"])
    ours.settle()
    ours.pass_time(PATIENCE - (ours.second - missed_at) - 1)
    ours.settle()
    assert (removal(ours), ours.rows()[KEYS["cart"]].desired) == (None, "present")
    assert KEYS["cart"] in ours.live, "what somebody had deleted was made again"


def test_binding_when_the_time_is_over_then_it_is_to_be_deleted_unless_a_watcher_finds_the_application(
    ours: Workspace,
) -> None:
    lose_application(ours)
    ours.pass_time(PATIENCE)
    row = removal(ours)
    assert row is not None
    assert json.loads(row.manifest)["unless"] == {APPLICATION.kind: "shop"}
    ours.take(resource_gone(ours.second, BINDING.kind, "web"))
    assert removal(ours) is None


def test_binding_when_it_has_deployed_nothing_yet_then_it_is_looked_at_again_all_the_same() -> None:
    workspace = Workspace(second=BEGIN)
    workspace.take(application(BEGIN), binding(BEGIN + 1))
    workspace.take(gone(BEGIN + 2))
    workspace.pass_time(PATIENCE)
    assert removal(workspace) is not None


def test_binding_when_its_application_is_made_again_in_time_then_it_stays_and_says_so(ours: Workspace) -> None:
    lose_application(ours)
    ours.pass_time(PATIENCE - 1)
    ours.take(application(ours.second, uid="uid-successor"))
    assert condition(ours.world)[:2] == ("True", "Reconciled")
    ours.pass_time(PATIENCE)
    assert removal(ours) is None


def test_binding_when_its_application_is_told_of_after_the_time_then_its_deletion_is_withdrawn(
    ours: Workspace,
) -> None:
    lose_application(ours)
    ours.pass_time(PATIENCE)
    assert removal(ours) is not None
    ours.take(application(ours.second, uid="uid-successor"))
    assert removal(ours) is None


def test_binding_when_its_application_waits_for_finalizers_then_it_is_not_missed_yet(ours: Workspace) -> None:
    ours.take(application(ours.second, deleting=True, finalizers=("example.com/theirs",)))
    ours.pass_time(PATIENCE)
    assert (condition(ours.world)[1], removal(ours)) == ("Reconciled", None)


def test_binding_when_its_application_never_was_and_others_are_then_it_goes(ours: Workspace) -> None:
    ours.take(application(ours.second, "blog"))
    lose_application(ours)
    ours.take(binding(ours.second + 1, "late", environment="production"))
    assert condition(ours.world, name="late")[1] == "ApplicationNotFound"
    ours.pass_time(PATIENCE + 1)
    assert {name for (kind, name), row in ours.rows().items() if kind == BINDING.kind} == {"web", "late"}


def test_binding_when_nobody_has_told_of_any_application_then_it_stays_and_nothing_is_said() -> None:
    workspace = Workspace(second=BEGIN)
    workspace.take(environment(BEGIN), binding(BEGIN + 1))
    workspace.pass_time(10 * PATIENCE)
    assert (condition(workspace.world)[1], removal(workspace)) == ("Reconciled", None)


def test_binding_when_there_are_more_applications_than_may_be_then_those_that_are_not_at_hand_are_not_missed() -> None:
    policy = Policy(limits=REGISTRY.limits({APPLICATION.kind: 1}))
    workspace = Workspace(World(policy=policy), second=BEGIN)
    workspace.take(application(BEGIN, "blog"), application(BEGIN + 1, "wiki"), environment(BEGIN + 2))
    workspace.take(binding(BEGIN + 3))
    workspace.pass_time(PATIENCE)
    assert (condition(workspace.world)[1], removal(workspace)) == ("Reconciled", None)


def test_binding_when_something_else_happens_to_it_meanwhile_then_its_time_is_not_forgotten(ours: Workspace) -> None:
    lose_application(ours)
    ours.pass_time(PATIENCE // 2)
    ours.take(binding(ours.second, ("web"), ("cart", "basket")))
    ours.world.memory.clear()
    ours.take(environment(ours.second + 1))
    ours.pass_time(PATIENCE - PATIENCE // 2)
    assert removal(ours) is not None


def test_binding_when_the_database_was_lost_then_its_time_begins_anew_and_only_if_applications_are_told_of(
    ours: Workspace,
) -> None:
    lose_application(ours)
    anew = Workspace(second=ours.second + PATIENCE)
    anew.pass_time(0)
    anew.take(environment(anew.second), binding(anew.second + 1))
    anew.pass_time(PATIENCE)
    assert removal(anew) is None
    anew.take(application(anew.second, "blog"))
    anew.pass_time(PATIENCE - 1)
    assert removal(anew) is None
    anew.pass_time(1)
    assert removal(anew) is not None


def test_binding_when_a_log_of_long_ago_is_read_again_then_its_time_begins_now() -> None:
    workspace = Workspace(second=1)
    workspace.take(environment(1), application(2), binding(3))
    workspace.take(gone(4))
    assert (condition(workspace.world)[1], removal(workspace)) == ("ApplicationNotFound", None)
    workspace.take(application(5, uid="uid-successor"))
    assert condition(workspace.world)[1] == "Reconciled"


def test_deletion_when_the_watcher_does_not_carry_it_out_then_it_is_asked_for_again_after_five_minutes(
    ours: Workspace,
) -> None:
    lose_application(ours)
    ours.pass_time(PATIENCE)
    first = removal(ours)
    unseen_after = round(UNSEEN_AFTER.total_seconds())
    ours.pass_time(unseen_after - 1)
    assert removal(ours) == first
    ours.pass_time(1)
    second = removal(ours)
    assert first is not None
    assert second is not None
    assert second.revision == first.revision + 1
