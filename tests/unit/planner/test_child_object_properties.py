"""Whatever happens to owners and to child objects, in whatever order it is told: in the end there is what is wanted."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.kinds.environment.model import ENVIRONMENT
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.steps.child_objects import REAPPLY_AFTER, UNSEEN_AFTER
from tests.unit.planner.workspace import CLUSTER, FIRST, PLACE, SECOND, Workspace, deployment

OWNERS, NAMES = (FIRST, SECOND), ("web", "api")
SOMEBODY = "somebody"
"""Another controller."""
LATER = round(UNSEEN_AFTER.total_seconds())
some = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
step = st.one_of(
    st.tuples(st.just("want"), st.sampled_from(OWNERS), some),
    st.tuples(st.just("place"), st.none(), st.booleans()),
    st.tuples(st.just("end"), st.sampled_from(OWNERS), st.none()),
    st.tuples(st.sampled_from(["edit", "remove", "seize", "overtake"]), st.sampled_from(NAMES), st.none()),
    st.tuples(st.sampled_from(["apply", "tell", "collect", "forget"]), st.none(), st.none()),
    st.tuples(st.just("wait"), st.integers(1, 2 * LATER), st.none()),
)
stories = st.lists(step, max_size=30)


class Story:
    """A workspace to which things happen. Owners of one name are other incarnations each time."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self.workspace.open()
        self.uids: dict[str, str] = {}

    def happen(self, what: str, who: Any, how: Any) -> None:
        getattr(self, f"_{what}")(who, how)

    def _want(self, who: str, how: list[str]) -> None:
        uid = self.uids.setdefault(who, f"{who}-{self.workspace.second}")
        self.workspace.bind(who, how, uid=uid)

    def _place(self, _who: None, is_elsewhere: bool) -> None:
        """The environment of one of them has a ManagedEnvironment then."""
        self.workspace.environment("qa", CLUSTER if is_elsewhere else "")

    def _end(self, who: str, _how: None) -> None:
        if who in self.uids:
            self.workspace.end(who, self.uids.pop(who))

    def _edit(self, name: str, _how: None) -> None:
        if (live := self.workspace.live.get(deployment(name))) is not None:
            self.workspace.edit(deployment(name), live.spec | {"type": "manual"})

    def _remove(self, name: str, _how: None) -> None:
        if deployment(name) in self.workspace.live:
            self.workspace.remove(deployment(name))

    def _overtake(self, name: str, _how: None) -> None:
        """It goes while the row that undoes an edit is on its way: so it is made anew, and nothing is told yet."""
        self.workspace.settle()
        self.workspace.pass_time(round(REAPPLY_AFTER.total_seconds()))
        self._edit(name, None)
        self.workspace.tell()
        self._remove(name, None)
        self.workspace.apply()

    def _seize(self, name: str, _how: None) -> None:
        if deployment(name) not in self.workspace.live:
            self.workspace.put(deployment(name), {"type": "manual"}, SOMEBODY)

    def _forget(self, _who: None, _how: None) -> None:
        """What came and went is never told."""
        workspace = self.workspace
        workspace.untold = [each for each in workspace.untold if each in workspace.told or each in workspace.live]

    def _apply(self, _who: None, _how: None) -> None:
        self.workspace.apply()

    def _tell(self, _who: None, _how: None) -> None:
        self.workspace.tell()

    def _collect(self, _who: None, _how: None) -> None:
        self.workspace.collect_garbage()

    def _wait(self, seconds: int, _how: None) -> None:
        self.workspace.pass_time(seconds)

    def give_back(self) -> None:
        """Nobody else has a name any more."""
        for key in [key for key, live in self.workspace.live.items() if live.controller == SOMEBODY]:
            self.workspace.remove(key)

    def calm_down(self) -> None:
        """Nothing happens any more but that time passes, and that owners are looked at again when a name is free."""
        workspace = self.workspace
        for _ in range(6):
            workspace.collect_garbage()
            workspace.settle()
            workspace.pass_time(LATER)
            for event in [*workspace.owners.values()]:
                message: Any = event.message
                told, content = message.event, json.loads(message.event.spec)
                if told.kind == BINDING.kind:
                    workspace.bind(told.name, [each["name"] for each in content["components"]], uid=told.uid)


def lived(story: list[tuple[str, Any, Any]]) -> Story:
    told = Story()
    for each in story:
        told.happen(*each)
    return told


def wanted(workspace: Workspace) -> dict[tuple[str, str], set[str]]:
    """By kind and name, the uids of the owners that want it."""
    found: dict[tuple[str, str], set[str]] = {}
    for owner in (each for each in workspace.world.resources.values() if each.present):
        content = json.loads(owner.spec)
        if owner.kind == BINDING.kind:
            for component in content["components"]:
                found.setdefault(deployment(component["name"]), set()).add(owner.uid)
        elif owner.kind == ENVIRONMENT.kind and "unstableConfigurationFields" in content:
            found[PLACE] = {owner.uid}
    return found


@given(stories)
def test_child_objects_when_all_is_calm_then_there_is_what_owners_want_and_no_other(
    story: list[tuple[str, Any, Any]],
) -> None:
    told = lived(story)
    workspace = told.workspace
    told.give_back()
    told.calm_down()
    want = wanted(workspace)
    assert workspace.live.keys() == want.keys() == workspace.rows().keys()
    for key, live in workspace.live.items():
        row = workspace.rows()[key]
        assert live.controller == row.owner_uid
        assert row.owner_uid in want[key]
        assert live.spec | json.loads(row.manifest)["spec"] == live.spec


@given(stories)
def test_child_objects_when_all_is_calm_then_nothing_is_written_any_more(story: list[tuple[str, Any, Any]]) -> None:
    told = lived(story)
    told.give_back()
    told.calm_down()
    written = told.workspace.written
    told.calm_down()
    assert told.workspace.written == written


@given(stories)
def test_object_of_another_controller_when_it_has_the_name_then_rows_do_not_follow_each_other(
    story: list[tuple[str, Any, Any]],
) -> None:
    """What cannot be had is asked for once in a while; what is there and is another's, once for each version."""
    told = lived(story)
    told.calm_down()
    workspace = told.workspace
    written, began = workspace.written, workspace.second
    told.calm_down()
    assert workspace.written - written <= len(workspace.rows()) * ((workspace.second - began) / LATER + 1)


@given(stories, st.integers(1, 40))
def test_controllers_when_they_disagree_then_rows_are_written_no_faster_than_once_in_a_while(
    story: list[tuple[str, Any, Any]], rounds: int
) -> None:
    told = lived(story)
    told.calm_down()
    workspace = told.workspace
    ours = [key for key, live in workspace.live.items() if live.controller != SOMEBODY]
    written, began = workspace.written, workspace.second
    for _ in range(rounds):
        for key in ours:
            if key in workspace.live:
                workspace.edit(key, workspace.live[key].spec | {"type": "manual", "apiURL": "https://other.example"})
        workspace.settle()
    most = len(ours) * ((workspace.second - began) / REAPPLY_AFTER.total_seconds() + 1)
    assert workspace.written - written <= most
