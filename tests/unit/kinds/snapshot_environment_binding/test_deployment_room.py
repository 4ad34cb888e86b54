"""Bindings together have no more GitOpsDeployments than their namespace may have: the oldest have room first."""

from __future__ import annotations

from typing import Any

import pytest

from services.kinds.registry import REGISTRY
from services.planner.domain.appstudio import bindings
from services.planner.domain.policy import Policy
from tests.unit.kinds.snapshot_environment_binding.test_binding_planned import (
    binding,
    component,
    condition,
    environment,
    wanted,
)
from tests.unit.planner.given import at, changed
from tests.unit.planner.workspace import DEPLOYMENT, Workspace
from tests.unit.planner.world import NOW, World

RECONCILED = ("True", "Reconciled", "")


def policy(most: int) -> Policy:
    return Policy(limits=REGISTRY.limits({DEPLOYMENT: most}))


def name_of(owner: str, component: str) -> str:
    return f"{owner}-shop-at-{owner}-{component}"


class Crowd:
    """A namespace with room for few deployments; each binding has an environment of its own."""

    def __init__(self, most: int) -> None:
        self.workspace = Workspace(world=World(policy=policy(most), later=at(0) - NOW))
        self.since: dict[str, int] = {}

    def bind(self, name: str, *components: str, **changes: Any) -> None:
        self.write(name, *components, **changes)
        self.workspace.settle()

    def write(self, name: str, *components: str, **changes: Any) -> None:
        """The planner is told of the binding; no row is applied yet."""
        self.workspace.second += 2
        now = self.workspace.second
        created = self.since.setdefault(name, now)
        event = binding(now, name, components, environment=f"at-{name}", created_at=created, **changes)
        self.workspace.owners[f"uid-{name}"] = event
        self.workspace.take(environment(now - 1, f"at-{name}"), event)

    def end(self, name: str) -> None:
        self.workspace.end(name)
        self.see_what_goes()

    def see_what_goes(self) -> None:
        self.workspace.collect_garbage()
        self.workspace.settle()
        self.workspace.pass_time(1)
        self.workspace.settle()

    def says(self, name: str) -> tuple[str, str, str]:
        return condition(self.workspace.world, name=name)

    def lacks(self, name: str, waiting: int, components: int, most: int) -> bool:
        message = (
            f"quota exceeded: {waiting} of {components} components have no GitOpsDeployment, since all bindings of "
            f"this namespace together may have {most}; remove components or bindings, or ask the operator for more"
        )
        return self.says(name) == ("False", "QuotaExceeded", message)

    @property
    def deployed(self) -> set[str]:
        return {name for _, name in self.workspace.live}


def test_bindings_when_there_is_no_room_for_all_then_the_oldest_has_it_and_the_next_when_that_goes() -> None:
    crowd = Crowd(3)
    crowd.bind("old", "a", "b")
    crowd.bind("young", "a", "b")
    crowd.bind("youngest", "a")
    assert crowd.deployed == {name_of("old", "a"), name_of("old", "b"), name_of("young", "a")}
    assert (crowd.says("old"), crowd.lacks("young", 1, 2, 3), crowd.lacks("youngest", 1, 1, 3)) == (
        RECONCILED,
        True,
        True,
    )
    assert condition(crowd.workspace.world, "AllComponentsDeployed", "young")[0] == "False"
    crowd.end("old")
    assert crowd.deployed == {name_of("young", "a"), name_of("young", "b"), name_of("youngest", "a")}
    assert (crowd.says("young"), crowd.says("youngest")) == (RECONCILED, RECONCILED)


def test_bindings_when_they_come_in_one_batch_then_the_oldest_have_room() -> None:
    world = World(policy=policy(1))
    world.take(environment(1), environment(2, "qa"), binding(4, "young", environment="qa"), binding(3, "old"))
    assert {each.owner_name for each in world.child_objects.values()} == {"old"}


def test_bindings_when_an_older_one_grows_then_it_waits_and_what_a_younger_one_has_stays() -> None:
    crowd = Crowd(2)
    crowd.bind("old", "a")
    crowd.bind("young", "a")
    crowd.bind("old", "a", "b", "c")
    assert crowd.deployed == {name_of("old", "a"), name_of("young", "a")}
    assert (crowd.lacks("old", 2, 3, 2), crowd.says("young")) == (True, RECONCILED)
    crowd.bind("old", "b")
    crowd.see_what_goes()
    assert crowd.deployed == {name_of("old", "b"), name_of("young", "a")}
    assert crowd.says("old") == RECONCILED


def test_binding_when_it_removes_a_component_then_the_oldest_that_waits_has_its_room_once_it_is_gone() -> None:
    crowd = Crowd(2)
    crowd.bind("old", "a", "b")
    crowd.bind("young", "a", "b")
    crowd.bind("youngest", "a")
    crowd.bind("old", "a")
    assert wanted(crowd.workspace) == {name_of("old", "a")}, "what goes counts until it is seen to be gone"
    crowd.see_what_goes()
    assert crowd.deployed == {name_of("old", "a"), name_of("young", "a")}
    assert (crowd.lacks("young", 1, 2, 2), crowd.lacks("youngest", 1, 1, 2)) == (True, True)


def test_bindings_when_they_are_made_and_deleted_in_turn_then_what_is_left_of_them_counts() -> None:
    crowd = Crowd(2)
    crowd.bind("first", "a", "b")
    crowd.workspace.end("first")
    crowd.write("second", "a", "b")
    assert {each.owner_name for each in crowd.workspace.rows().values()} == {"first"}
    assert crowd.lacks("second", 2, 2, 2)
    crowd.see_what_goes()
    assert crowd.deployed == {name_of("second", "a"), name_of("second", "b")}


def test_bindings_when_the_quota_is_lowered_then_what_is_deployed_stays_and_nothing_comes() -> None:
    crowd = Crowd(3)
    crowd.bind("old", "a", "b", "c")
    crowd.workspace.world.policy = policy(1)
    crowd.bind("old", "a", "b", "c", "d")
    assert crowd.deployed == {name_of("old", each) for each in "abc"}
    assert crowd.lacks("old", 1, 4, 1)
    crowd.workspace.world.policy = policy(4)
    crowd.bind("other")
    assert crowd.deployed == {name_of("old", each) for each in "abcd"}
    assert crowd.says("old") == RECONCILED


def test_binding_when_it_waits_and_something_else_is_wrong_with_it_then_it_has_room_all_the_same() -> None:
    crowd = Crowd(1)
    crowd.bind("old", "a")
    crowd.bind("young", "a", "b", told=[component("a")])
    assert crowd.says("young")[1] == "WaitingForComponentStatus"
    crowd.end("old")
    assert crowd.deployed == {name_of("young", "a")}


def test_binding_when_an_object_of_somebody_else_has_a_name_then_that_takes_no_room_and_is_told() -> None:
    crowd = Crowd(1)
    crowd.workspace.put((DEPLOYMENT, name_of("old", "a")), {"type": "manual"})
    crowd.workspace.tell()
    crowd.bind("old", "a", "b")
    assert crowd.deployed == {name_of("old", "a"), name_of("old", "b")}
    assert crowd.says("old")[1] == "NameExists"


def test_binding_when_the_database_was_lost_then_what_it_had_is_its_own_whoever_was_told_first() -> None:
    crowd = Crowd(1)
    crowd.workspace.owners["uid-old"] = binding(1, "old", environment="at-old")
    spec = {"source": {"repoURL": "https://git.example.com/gitops", "path": "components/a"}, "type": "automated"}
    crowd.workspace.put((DEPLOYMENT, name_of("old", "a")), spec, "uid-old")
    crowd.workspace.tell()
    crowd.bind("young", "a")
    crowd.bind("old", "a", "b")
    assert wanted(crowd.workspace) == {name_of("young", "a"), name_of("old", "a")}
    assert crowd.lacks("old", 1, 2, 1)


def test_binding_when_it_is_deleted_while_it_waits_then_the_next_has_the_room() -> None:
    crowd = Crowd(1)
    crowd.bind("first", "a")
    crowd.bind("second", "a")
    crowd.bind("third", "a")
    crowd.bind("second", "a", deleting=True)
    crowd.end("first")
    assert crowd.deployed == {name_of("third", "a")}


@pytest.fixture
def waiting() -> Crowd:
    """One with many bindings that wait."""
    crowd = Crowd(2)
    for name in ("first", "second", "third", "fourth", "fifth"):
        crowd.bind(name, "a")
    return crowd


def test_bindings_when_many_wait_then_only_those_are_looked_at_that_it_concerns(
    waiting: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    decide = bindings.decide

    def counted(known: Any, addresses: Any) -> Any:
        asked.append(known.name)
        return decide(known, addresses)

    monkeypatch.setattr(bindings, "decide", counted)
    waiting.bind("first", "a", labels={"x": "y"})
    waiting.workspace.take(changed(waiting.workspace.second + 1))
    assert asked == ["first"], "there is no room, so nobody else is looked at"
    waiting.bind("fifth", "a", "b")
    assert asked == ["first", "fifth"]
    waiting.end("first")
    assert asked == ["first", "fifth", "third"], "there is room for one"
    assert waiting.deployed >= {name_of("second", "a"), name_of("third", "a")}


def test_planner_when_its_memory_is_lost_while_bindings_wait_then_the_oldest_has_the_room_that_comes(
    waiting: Crowd,
) -> None:
    waiting.workspace.world.memory.clear()
    waiting.end("first")
    assert waiting.deployed == {name_of("second", "a"), name_of("third", "a")}
    assert waiting.lacks("fourth", 1, 1, 2)
