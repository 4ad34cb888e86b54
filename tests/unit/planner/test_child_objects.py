"""Child objects, planned: their rows follow what their owners want and what there is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from services.common.json_values import digest
from services.common.messages import ChildKind
from services.kinds.environment.model import ENVIRONMENT
from services.kinds.shared import desired_object
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.resource import Cause
from services.kinds.snapshot_environment_binding.kind import KIND
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.domain.steps.child_objects import (
    COPIED_AGAIN_AFTER,
    REAPPLY_AFTER,
    UNSEEN_AFTER,
    want_child_objects,
)
from tests.unit.planner.given import (
    NAMESPACE,
    WORKSPACE,
    at,
    changed,
    in_namespace,
    resource,
    resource_gone,
    secret,
    traceparent,
)
from tests.unit.planner.targets import CLAIM, CLASS, CREDENTIALS, TARGET
from tests.unit.planner.workspace import CLUSTER, DEPLOYMENT, FIRST, PLACE, SECOND, Workspace, deployment

SOON = round(REAPPLY_AFTER.total_seconds())
LATER = round(UNSEEN_AFTER.total_seconds())
COPIED_AGAIN = round(COPIED_AGAIN_AFTER.total_seconds())


def opened() -> Workspace:
    """One with environments."""
    workspace = Workspace()
    workspace.open()
    return workspace


@pytest.fixture
def ours() -> Workspace:
    """A namespace with a binding of two components and an environment on a cluster; what they want is there."""
    workspace = opened()
    workspace.environment("qa", CLUSTER)
    workspace.bind(FIRST, ["web", "api"])
    workspace.settle()
    workspace.second += SOON
    return workspace


def test_child_object_when_its_owner_wants_it_then_its_row_says_what_whose_and_why() -> None:
    workspace = Workspace()
    workspace.environment("qa", CLUSTER)
    row = workspace.rows()[PLACE]
    assert (row.workspace, row.namespace, row.desired, row.uid, row.revision) == (
        WORKSPACE,
        NAMESPACE,
        "present",
        "",
        1,
    )
    owner = (row.owner_api_version, row.owner_kind, row.owner_name, row.owner_uid)
    assert owner == (ENVIRONMENT.api_version, ENVIRONMENT.kind, "qa", "uid-qa")
    manifest = json.loads(row.manifest)
    assert manifest["spec"]["apiURL"] == CLUSTER
    assert (manifest["annotations"], manifest["labels"]) == ({}, {})
    assert (row.digest, row.trace_id, row.seen_at) == (digest(row.manifest), traceparent(1), at(1))


def test_child_objects_when_they_exist_as_wanted_then_nothing_is_written_any_more(ours: Workspace) -> None:
    written = ours.written
    ours.bind(FIRST, ["web", "api"])
    ours.pass_time(10 * LATER)
    assert ours.written == written == 3


def test_child_object_when_its_owner_wants_another_manifest_then_its_row_follows(ours: Workspace) -> None:
    before = ours.rows()[PLACE]
    ours.environment("qa", "https://other.example.com:6443")
    now = ours.rows()[PLACE]
    assert (now.revision, now.digest == before.digest) == (2, False)
    assert [row.revision for row in ours.rows().values() if row.kind == DEPLOYMENT] == [1, 1]
    ours.settle()
    assert ours.live[PLACE].spec["apiURL"] == "https://other.example.com:6443"


def test_child_object_when_its_owner_wants_it_no_more_then_it_is_absent_by_its_uid_until_it_is_gone(
    ours: Workspace,
) -> None:
    uid = ours.live[deployment("api")].uid
    ours.bind(FIRST, ["web"])
    assert (ours.row("api").desired, ours.row("api").uid) == ("absent", uid)
    assert ours.row("web").desired == "present"
    ours.settle()
    assert deployment("api") not in ours.live
    assert sorted(ours.rows()) == sorted([deployment("web"), PLACE])


def test_child_object_when_nobody_has_seen_it_and_it_is_wanted_no_more_then_its_row_waits_a_while_for_it() -> None:
    """A watcher may be about to make it: only then it can tell of it."""
    workspace = opened()
    workspace.bind(FIRST, ["web", "api"])
    workspace.bind(FIRST, ["web"])
    assert (workspace.row("api").desired, workspace.row("api").uid) == ("absent", "")
    workspace.pass_time(LATER - 1)
    assert deployment("api") in workspace.rows()
    workspace.pass_time(1)
    assert deployment("api") not in workspace.rows()


def test_child_object_when_it_is_seen_only_once_it_is_wanted_no_more_then_its_row_names_it() -> None:
    workspace = opened()
    workspace.bind(FIRST, ["web", "api"])
    workspace.apply()
    workspace.bind(FIRST, ["web"])
    workspace.tell()
    assert (workspace.row("api").desired, workspace.row("api").uid) == ("absent", workspace.live[deployment("api")].uid)
    workspace.settle()
    assert ([*workspace.live], [*workspace.rows()]) == ([deployment("web")], [deployment("web")])


def test_child_object_when_another_is_made_before_its_end_is_told_then_that_goes_too(ours: Workspace) -> None:
    """A row to undo a change is on its way when the object is deleted: so another one is made, and told of last."""
    key = deployment("web")
    ours.edit(key, ours.live[key].spec | {"type": "manual"})
    ours.tell()
    ours.remove(key)
    ours.apply()
    assert ours.row("web").revision == 2
    ours.bind(FIRST, ["api"])
    ours.settle()
    assert sorted(ours.live) == sorted([deployment("api"), PLACE])
    ours.pass_time(LATER)
    assert ours.rows().keys() == ours.live.keys()


@pytest.mark.parametrize(
    ("key", "change"),
    [
        pytest.param(deployment("web"), {"type": "manual"}, id="a deployment"),
        pytest.param(deployment("web"), {"type": "no such type"}, id="a deployment that is not valid then"),
        pytest.param(PLACE, {"credentialsSecret": "mine"}, id="an environment"),
    ],
)
def test_child_object_when_somebody_edits_it_then_it_is_applied_anew(
    ours: Workspace, key: tuple[str, str], change: dict[str, str]
) -> None:
    wanted, row = ours.live[key].spec, ours.rows()[key]
    ours.edit(key, wanted | change)
    ours.tell()
    assert ours.rows()[key].revision == row.revision + 1
    assert ours.rows()[key].manifest == row.manifest
    ours.settle()
    assert ours.live[key].spec == wanted
    assert ours.rows()[key].revision == row.revision + 1


def test_child_object_when_it_goes_right_after_it_was_made_then_it_is_made_again_ten_seconds_after_that() -> None:
    """So what somebody removes without end is made every ten seconds."""
    workspace = opened()
    workspace.bind(FIRST, ["web", "api"])
    workspace.settle()
    workspace.remove(deployment("web"))
    workspace.tell()
    workspace.bind(FIRST, ["web", "api"])
    assert workspace.row("web").revision == 1
    workspace.pass_time(SOON)
    assert (workspace.row("web").revision, workspace.row("api").revision) == (2, 1)
    workspace.settle()
    assert deployment("web") in workspace.live


def test_child_object_when_somebody_adds_what_we_do_not_own_then_it_stays(ours: Workspace) -> None:
    ours.edit(PLACE, ours.live[PLACE].spec | {"theirs": "stays"})
    ours.settle()
    assert ours.rows()[PLACE].revision == 1
    assert ours.live[PLACE].spec["theirs"] == "stays"


def test_child_object_when_somebody_deletes_it_then_it_is_made_again(ours: Workspace) -> None:
    key = deployment("web")
    before = ours.live[key]
    ours.remove(key)
    ours.settle()
    assert ours.live[key].content == before.content
    assert ours.live[key].uid != before.uid
    assert ours.row("web").revision == 2


def test_child_object_when_it_is_being_deleted_then_it_is_made_again_only_once_it_is_gone(ours: Workspace) -> None:
    key = deployment("web")
    uid = ours.live[key].uid
    ours.take(changed(ours.second, "web", uid=uid, content={"type": "manual"}, generation=99, deleting=True))
    assert ours.row("web").revision == 1
    ours.remove(key)
    ours.settle()
    assert ours.row("web").revision == 2


def test_child_object_when_it_is_wanted_otherwise_while_it_is_being_deleted_then_it_is_asked_for_again_once_it_is_gone(
    ours: Workspace,
) -> None:
    """So a watcher may forget the row that it could not apply."""
    key = deployment("web")
    held = ours.live[key]
    ours.take(changed(ours.second, "web", uid=held.uid, content={"type": "manual"}, generation=99, deleting=True))
    ours.bind(FIRST, ["web", "api"], branch="next")
    ours.unapplied.clear()
    assert ours.row("web").revision == 2
    ours.second += SOON
    ours.remove(key)
    ours.tell()
    assert ours.row("web").revision == 3


def test_child_object_when_its_end_is_told_by_no_event_then_it_is_asked_for_again_after_a_while() -> None:
    """It came and went within a batch, which has the end alone, of what nobody had heard of."""
    workspace = opened()
    workspace.bind(FIRST, ["web"])
    workspace.apply()
    workspace.live.clear()
    workspace.untold.clear()
    workspace.pass_time(LATER)
    workspace.settle()
    assert [*workspace.live] == [deployment("web")]


def test_child_object_when_another_controller_disagrees_then_a_row_is_written_once_in_a_while_at_most(
    ours: Workspace,
) -> None:
    key, began, written = deployment("web"), ours.second, ours.written
    theirs = ours.live[key].spec | {"type": "manual"}
    for _ in range(200):
        ours.edit(key, theirs)
        ours.tell()
        ours.apply()
        ours.pass_time(1)
    assert 2 <= ours.written - written <= (ours.second - began) / SOON + 1
    ours.pass_time(SOON)
    ours.settle()
    assert ours.live[key].spec["type"] == "automated"


def test_child_object_when_it_cannot_be_as_wanted_then_each_of_its_versions_is_answered_once(ours: Workspace) -> None:
    key = deployment("web")
    ours.edit(key, ours.live[key].spec | {"type": "manual"})
    ours.tell()
    ours.unapplied.clear()
    assert ours.row("web").revision == 2
    for _ in range(5):
        ours.bind(FIRST, ["web", "api"])
        ours.pass_time(LATER)
    assert ours.row("web").revision == 2


def test_owner_when_it_is_gone_then_its_child_objects_are_absent_and_nothing_stays(ours: Workspace) -> None:
    ours.end(FIRST)
    assert {row.desired for row in ours.rows().values() if row.kind == DEPLOYMENT} == {"absent"}
    ours.collect_garbage()
    ours.settle()
    assert [*ours.rows()] == [PLACE]
    assert [row for row in ours.world.resources.values() if row.kind == BINDING.kind] == []


def test_owner_when_it_is_gone_before_anybody_saw_its_child_objects_then_nothing_stays_after_a_while() -> None:
    workspace = opened()
    workspace.bind(FIRST, ["web"])
    workspace.end(FIRST)
    assert {row.desired for row in workspace.rows().values()} == {"absent"}
    workspace.pass_time(LATER)
    kept = {row.kind for row in workspace.world.resources.values()}
    assert (workspace.rows(), kept) == ({}, {ENVIRONMENT.kind})


def test_owner_when_it_is_made_again_under_its_name_then_its_child_objects_are_the_new_ones(ours: Workspace) -> None:
    ours.end(FIRST)
    ours.bind(FIRST, ["web"], uid="uid-web-2")
    assert (ours.row("web").desired, ours.row("web").owner_uid) == ("present", "uid-web-2")
    ours.apply()  # the old one is in the way
    ours.collect_garbage()
    ours.pass_time(LATER)
    ours.settle()
    ours.pass_time(LATER)
    ours.settle()
    del ours.live[PLACE]
    assert {key: live.controller for key, live in ours.live.items()} == {deployment("web"): "uid-web-2"}
    assert {key: row.desired for key, row in ours.rows().items() if key != PLACE} == {deployment("web"): "present"}


def test_owner_when_another_one_wants_the_same_then_it_stays_the_first_ones_until_that_is_gone(ours: Workspace) -> None:
    ours.bind(SECOND, ["web", "docs"])
    assert ours.row("web").owner_name == FIRST
    assert ours.row("docs").owner_name == SECOND
    ours.bind(FIRST, ["api"])
    ours.bind(SECOND, ["web", "docs"])
    assert (ours.row("web").owner_name, ours.row("web").desired) == (FIRST, "absent")
    ours.settle()
    ours.bind(SECOND, ["web", "docs"])
    ours.settle()
    assert ours.row("web").owner_name == SECOND
    assert ours.live[deployment("web")].controller == "uid-web-shop"


def test_owner_when_it_is_told_what_is_refused_then_others_names_and_what_is_too_long_are(
    ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.bind(SECOND, ["docs"])
    (state,) = ours.world.memory.values()
    owner = next(each for each in state.plain_resources.values() if each.name == SECOND)
    names = [deployment("web")[1], deployment("docs")[1], "x" * 200]
    wanted = [ChildObject(ChildKind.DEPLOYMENT, name, {"source": "x" * (len(name) // 2)}) for name in names]
    monkeypatch.setattr(desired_object, "MAX_MANIFEST", 100)
    found = want_child_objects(state, owner, KIND, wanted, Cause(at(ours.second), ""))
    assert found.refused == (deployment("web"), (DEPLOYMENT, "x" * 200))
    assert found.state.child_objects[deployment("docs")].digest == wanted[1].digest


COPY = (ChildKind.SECRET_COPY.value, "managed-environment-secret-qa")


def with_copy() -> Workspace:
    """One with an environment on a claim, whose target has a Secret that nobody follows."""
    workspace = Workspace()
    target = {"deploymentTargetClassName": CLASS, "kubernetesCredentials": CREDENTIALS}
    claim = {"target": {"deploymentTargetClaim": {"claimName": "dev"}}}
    content = {"displayName": "qa", "deploymentStrategy": "Manual", "configuration": claim}
    workspace.take(
        resource(1, TARGET, "t", target, metadata={}),
        resource(1, CLAIM, "dev", {"deploymentTargetClassName": CLASS}, metadata={}),
        resource(1, ENVIRONMENT.kind, "qa", content),
    )
    return workspace


def test_copied_secret_when_it_is_reported_then_only_that_it_is_there_or_gone_counts() -> None:
    """Its content is sealed, and so is a new text whenever the watcher reads it."""
    workspace, name = with_copy(), COPY[1]
    row = workspace.rows()[COPY]
    assert json.loads(row.manifest)["spec"] == {
        "from": "login",
        "type": "managed-gitops.redhat.com/managed-environment",
    }
    for second in (SOON + 1, SOON + 2):
        workspace.take(secret(second, name, version=second))
    assert workspace.rows()[COPY] == row
    workspace.take(resource_gone(SOON + 3, "Secret", name, f"uid-secret-{name}"))
    assert workspace.rows()[COPY].revision == 2


def test_copied_secret_when_it_has_been_there_for_long_then_it_is_copied_again() -> None:
    """Its source may be another by then, and nobody tells."""
    workspace = with_copy()
    workspace.take(secret(2, COPY[1]))
    row = workspace.rows()[COPY]
    workspace.second = 2
    workspace.pass_time(COPIED_AGAIN)
    again = workspace.rows()[COPY]
    assert (again.revision, again.manifest) == (row.revision + 1, row.manifest)
    workspace.pass_time(SOON)
    assert workspace.rows()[COPY] == again


def test_namespace_when_it_is_made_again_then_nothing_of_its_child_objects_stays() -> None:
    workspace, told = Workspace(), opened()
    told.bind(FIRST, ["web"])
    workspace.take(*in_namespace(("former", 1000), *told.owners.values()))
    assert [*workspace.rows()] == [deployment("web")]
    workspace.take(*in_namespace(("latter", 60_000), changed(90, "mine", uid="uid-mine")))
    assert workspace.rows() == {}


def test_child_objects_when_some_are_dormant_then_they_are_not_taken_for_gone() -> None:
    """Their tenant has no room for them: such rows are loaded only when something names them."""
    workspace = opened()
    kinds = workspace.world.policy.kinds
    workspace.bind(FIRST, ["a", "b", "c", "d"])
    workspace.world.policy = replace(workspace.world.policy, limits=kinds.limits({DEPLOYMENT: 1}))
    workspace.settle()
    assert workspace.world.dormant
    workspace.world.memory.clear()
    workspace.bind(FIRST, ["a"])
    uids = {name: workspace.live[deployment(name)].uid for name in ("b", "c", "d")}
    assert {name: workspace.row(name).uid for name in uids} == uids
    workspace.pass_time(LATER)
    assert {workspace.row(name).desired for name in uids} == {"absent"}
    workspace.settle()
    assert ([*workspace.live], [*workspace.rows()]) == ([deployment("a")], [deployment("a")])
