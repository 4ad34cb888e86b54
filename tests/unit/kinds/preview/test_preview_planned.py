"""A kind with child objects, planned: its rows follow what it wants and what there is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from services.common.json_values import digest
from services.common.messages import ChildKind
from services.kinds.shared import desired_object
from services.kinds.shared.child_objects import ChildObject
from services.kinds.shared.resource import Cause
from services.planner.domain.steps.child_objects import (
    COPIED_AGAIN_AFTER,
    REAPPLY_AFTER,
    UNSEEN_AFTER,
    want_child_objects,
)
from tests.unit.kinds.preview.kind import KIND, LABEL, PREVIEW
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
from tests.unit.planner.tenant import conditions
from tests.unit.planner.workspace import CLUSTER, DEPLOYMENT, MANAGED_ENVIRONMENT, Workspace

SOON = round(REAPPLY_AFTER.total_seconds())
LATER = round(UNSEEN_AFTER.total_seconds())
COPIED_AGAIN = round(COPIED_AGAIN_AFTER.total_seconds())


@pytest.fixture
def ours() -> Workspace:
    """A namespace with a preview of two deployments and a cluster, all of which exist."""
    workspace = Workspace()
    workspace.preview("login", ["web", "api"], CLUSTER)
    workspace.settle()
    workspace.second += SOON
    return workspace


def test_child_object_when_its_owner_wants_it_then_its_row_says_what_whose_and_why() -> None:
    workspace = Workspace()
    workspace.preview("login", ["web"], CLUSTER)
    row = workspace.row("preview-login", MANAGED_ENVIRONMENT)
    assert (row.workspace, row.namespace, row.desired, row.uid, row.revision) == (
        WORKSPACE,
        NAMESPACE,
        "present",
        "",
        1,
    )
    owner = (row.owner_api_version, row.owner_kind, row.owner_name, row.owner_uid)
    assert owner == (PREVIEW.api_version, PREVIEW.kind, "login", "uid-login")
    content = {"apiURL": CLUSTER, "credentialsSecret": "kubeconfig", "allowInsecureSkipTLSVerify": False}
    assert json.loads(row.manifest) == {"annotations": {}, "labels": {LABEL: "login"}, "spec": content}
    assert (row.digest, row.trace_id, row.seen_at) == (digest(row.manifest), traceparent(1), at(1))
    assert workspace.row("web").desired == "present"


def test_child_objects_when_they_exist_as_wanted_then_nothing_is_written_any_more(ours: Workspace) -> None:
    written = ours.written
    ours.preview("login", ["web", "api"], CLUSTER)
    ours.pass_time(10 * LATER)
    assert ours.written == written == 3


def test_child_object_when_its_owner_wants_another_manifest_then_its_row_follows(ours: Workspace) -> None:
    before = ours.row("preview-login", MANAGED_ENVIRONMENT)
    ours.preview("login", ["web", "api"], "https://other.example.com:6443")
    now = ours.row("preview-login", MANAGED_ENVIRONMENT)
    assert (now.revision, now.digest == before.digest) == (2, False)
    assert [row.revision for row in ours.rows().values() if row.kind == DEPLOYMENT] == [1, 1]
    ours.settle()
    assert ours.live[now.key].spec["apiURL"] == "https://other.example.com:6443"


def test_child_object_when_its_owner_wants_it_no_more_then_it_is_absent_by_its_uid_until_it_is_gone(
    ours: Workspace,
) -> None:
    uid = ours.live[DEPLOYMENT, "api"].uid
    ours.preview("login", ["web"], CLUSTER)
    assert (ours.row("api").desired, ours.row("api").uid) == ("absent", uid)
    assert ours.row("web").desired == "present"
    ours.settle()
    assert (DEPLOYMENT, "api") not in ours.live
    assert sorted(ours.rows()) == [(DEPLOYMENT, "web"), (MANAGED_ENVIRONMENT, "preview-login")]


def test_child_object_when_nobody_has_seen_it_and_it_is_wanted_no_more_then_its_row_waits_a_while_for_it() -> None:
    """A watcher may be about to make it: only then it can tell of it."""
    workspace = Workspace()
    workspace.preview("login", ["web", "api"])
    workspace.preview("login", ["web"])
    assert (workspace.row("api").desired, workspace.row("api").uid) == ("absent", "")
    workspace.pass_time(LATER - 1)
    assert (DEPLOYMENT, "api") in workspace.rows()
    workspace.pass_time(1)
    assert (DEPLOYMENT, "api") not in workspace.rows()


def test_child_object_when_it_is_seen_only_once_it_is_wanted_no_more_then_its_row_names_it() -> None:
    workspace = Workspace()
    workspace.preview("login", ["web", "api"])
    workspace.apply()
    workspace.preview("login", ["web"])
    workspace.tell()
    assert (workspace.row("api").desired, workspace.row("api").uid) == ("absent", workspace.live[DEPLOYMENT, "api"].uid)
    workspace.settle()
    assert ([*workspace.live], [*workspace.rows()]) == ([(DEPLOYMENT, "web")], [(DEPLOYMENT, "web")])


@pytest.mark.parametrize(
    ("key", "change"),
    [
        pytest.param((DEPLOYMENT, "web"), {"type": "manual"}, id="a deployment"),
        pytest.param((DEPLOYMENT, "web"), {"type": "no such type"}, id="a deployment that is not valid then"),
        pytest.param((MANAGED_ENVIRONMENT, "preview-login"), {"credentialsSecret": "mine"}, id="an environment"),
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
    workspace = Workspace()
    workspace.preview("login", ["web", "api"])
    workspace.settle()
    workspace.remove((DEPLOYMENT, "web"))
    workspace.tell()
    workspace.preview("login", ["web", "api"])
    assert workspace.row("web").revision == 1
    workspace.pass_time(SOON)
    assert (workspace.row("web").revision, workspace.row("api").revision) == (2, 1)
    workspace.settle()
    assert (DEPLOYMENT, "web") in workspace.live


def test_child_object_when_somebody_adds_what_we_do_not_own_then_it_stays(ours: Workspace) -> None:
    key = (MANAGED_ENVIRONMENT, "preview-login")
    ours.edit(key, ours.live[key].spec | {"namespaces": ["theirs"]})
    ours.settle()
    assert ours.rows()[key].revision == 1
    assert ours.live[key].spec["namespaces"] == ["theirs"]


def test_child_object_when_somebody_deletes_it_then_it_is_made_again(ours: Workspace) -> None:
    key = (DEPLOYMENT, "web")
    before = ours.live[key]
    ours.remove(key)
    ours.settle()
    assert ours.live[key].content == before.content
    assert ours.live[key].uid != before.uid
    assert ours.row("web").revision == 2


def test_child_object_when_it_is_being_deleted_then_it_is_made_again_only_once_it_is_gone(ours: Workspace) -> None:
    key = (DEPLOYMENT, "web")
    uid = ours.live[key].uid
    ours.take(changed(ours.second, "web", uid=uid, content={"type": "manual"}, generation=99, deleting=True))
    assert ours.row("web").revision == 1
    ours.remove(key)
    ours.settle()
    assert ours.row("web").revision == 2


def test_child_object_when_its_end_is_told_by_no_event_then_it_is_asked_for_again_after_a_while() -> None:
    """It came and went within a batch, which has the end alone, of what nobody had heard of."""
    workspace = Workspace()
    workspace.preview("login", ["web"])
    workspace.apply()
    workspace.live.clear()
    workspace.untold.clear()
    workspace.pass_time(LATER)
    workspace.settle()
    assert [*workspace.live] == [(DEPLOYMENT, "web")]


def test_child_object_when_another_controller_disagrees_then_a_row_is_written_once_in_a_while_at_most(
    ours: Workspace,
) -> None:
    key, began, written = (DEPLOYMENT, "web"), ours.second, ours.written
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
    key = (DEPLOYMENT, "web")
    ours.edit(key, ours.live[key].spec | {"type": "manual"})
    ours.tell()
    ours.unapplied.clear()
    assert ours.row("web").revision == 2
    for _ in range(5):
        ours.preview("login", ["web", "api"], CLUSTER)
        ours.pass_time(LATER)
    assert ours.row("web").revision == 2


def test_owner_when_it_is_gone_then_its_child_objects_are_absent_and_nothing_stays(ours: Workspace) -> None:
    ours.end("login")
    assert {row.desired for row in ours.rows().values()} == {"absent"}
    ours.collect_garbage()
    ours.settle()
    assert ours.rows() == {}
    assert [row for row in ours.world.resources.values() if row.kind == PREVIEW.kind] == []


def test_owner_when_it_is_gone_before_anybody_saw_its_child_objects_then_nothing_stays_after_a_while() -> None:
    workspace = Workspace()
    workspace.preview("login", ["web"], CLUSTER)
    workspace.end("login")
    assert {row.desired for row in workspace.rows().values()} == {"absent"}
    workspace.pass_time(LATER)
    assert (workspace.rows(), workspace.world.resources, workspace.world.tenants) == ({}, {}, {})


def test_owner_when_its_spec_is_refused_then_it_keeps_its_child_objects(ours: Workspace) -> None:
    ours.preview("login", [])
    assert conditions(ours.world, PREVIEW.kind, "login")["Shown"][1] == "NoDeployments"
    assert {row.desired for row in ours.rows().values()} == {"present"}
    assert len(ours.rows()) == 3


def test_owner_when_it_is_made_again_under_its_name_then_its_child_objects_are_the_new_ones(ours: Workspace) -> None:
    ours.end("login")
    ours.preview("login", ["web"], uid="uid-login-2")
    assert (ours.row("web").desired, ours.row("web").owner_uid) == ("present", "uid-login-2")
    ours.apply()  # the old one is in the way
    ours.collect_garbage()
    ours.pass_time(LATER)
    ours.settle()
    ours.pass_time(LATER)
    ours.settle()
    assert {key: live.controller for key, live in ours.live.items()} == {(DEPLOYMENT, "web"): "uid-login-2"}
    assert {key: row.desired for key, row in ours.rows().items()} == {(DEPLOYMENT, "web"): "present"}


def test_owner_when_another_one_wants_the_same_then_it_stays_the_first_ones_until_that_is_gone(ours: Workspace) -> None:
    ours.preview("other", ["web", "docs"])
    assert ours.row("web").owner_name == "login"
    assert ours.row("docs").owner_name == "other"
    ours.preview("login", ["api"], CLUSTER)
    ours.preview("other", ["web", "docs"])
    assert (ours.row("web").owner_name, ours.row("web").desired) == ("login", "absent")
    ours.settle()
    ours.preview("other", ["web", "docs"])
    ours.settle()
    assert ours.row("web").owner_name == "other"
    assert ours.live[DEPLOYMENT, "web"].controller == "uid-other"


def test_owner_when_it_is_told_what_is_refused_then_others_names_and_what_is_too_long_are(
    ours: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.preview("other", ["docs"])
    (state,) = ours.world.memory.values()
    owner = next(each for each in state.plain_resources.values() if each.name == "other")
    wanted = [ChildObject(ChildKind.DEPLOYMENT, name, {"source": name}) for name in ("web", "docs", "x" * 200)]
    monkeypatch.setattr(desired_object, "MAX_MANIFEST", 100)
    found = want_child_objects(state, owner, KIND, wanted, Cause(at(ours.second), ""))
    assert found.refused == ((DEPLOYMENT, "web"), (DEPLOYMENT, "x" * 200))
    assert found.state.child_objects[DEPLOYMENT, "docs"].digest == wanted[1].digest


def test_copied_secret_when_it_is_reported_then_only_that_it_is_there_or_gone_counts() -> None:
    """Its content is sealed, and so is a new text whenever the watcher reads it."""
    workspace, key = Workspace(), (ChildKind.SECRET_COPY.value, "copy-login")
    workspace.take(resource(1, PREVIEW.kind, "login", {"deployments": ["web"], "secret": "theirs"}))
    row = workspace.rows()[key]
    assert json.loads(row.manifest)["spec"] == {
        "from": "theirs",
        "type": "managed-gitops.redhat.com/managed-environment",
    }
    for second in (SOON + 1, SOON + 2):
        workspace.take(secret(second, "copy-login", version=second))
    assert workspace.rows()[key] == row
    workspace.take(resource_gone(SOON + 3, "Secret", "copy-login", "uid-secret-copy-login"))
    assert workspace.rows()[key].revision == 2


def test_copied_secret_when_it_has_been_there_for_long_then_it_is_copied_again() -> None:
    """Its source may be another by then, and nobody tells."""
    workspace, key = Workspace(), (ChildKind.SECRET_COPY.value, "copy-login")
    workspace.take(resource(1, PREVIEW.kind, "login", {"deployments": ["web"], "secret": "theirs"}))
    workspace.take(secret(2, "copy-login"))
    row = workspace.rows()[key]
    workspace.second = 2
    workspace.pass_time(COPIED_AGAIN)
    again = workspace.rows()[key]
    assert (again.revision, again.manifest) == (row.revision + 1, row.manifest)
    workspace.pass_time(SOON)
    assert workspace.rows()[key] == again


def test_namespace_when_it_is_made_again_then_nothing_of_its_child_objects_stays() -> None:
    workspace, told = Workspace(), Workspace()
    told.preview("login", ["web"])
    workspace.take(*in_namespace(("former", 1000), *told.owners.values()))
    assert [*workspace.rows()] == [(DEPLOYMENT, "web")]
    workspace.take(*in_namespace(("latter", 60_000), changed(90, "mine", uid="uid-mine")))
    assert workspace.rows() == {}


def test_child_objects_when_some_are_dormant_then_they_are_not_taken_for_gone() -> None:
    """Their tenant has no room for them: such rows are loaded only when something names them."""
    workspace, kinds = Workspace(), Workspace().world.policy.kinds
    workspace.world.policy = replace(workspace.world.policy, limits=kinds.limits({DEPLOYMENT: 1}))
    workspace.preview("login", ["a", "b", "c", "d"])
    workspace.settle()
    assert workspace.world.dormant
    workspace.world.memory.clear()
    workspace.preview("login", ["a"])
    uids = {name: workspace.live[DEPLOYMENT, name].uid for name in ("b", "c", "d")}
    assert {name: workspace.row(name).uid for name in uids} == uids
    workspace.pass_time(LATER)
    assert {workspace.row(name).desired for name in uids} == {"absent"}
    workspace.settle()
    assert ([*workspace.live], [*workspace.rows()]) == ([(DEPLOYMENT, "a")], [(DEPLOYMENT, "a")])


def test_owner_when_it_waits_for_room_then_it_has_no_child_objects_until_there_is_some() -> None:
    few = replace(Workspace().world.policy, limits=Workspace().world.policy.kinds.limits({PREVIEW.kind: 1}))
    workspace = Workspace()
    workspace.world.policy = few
    workspace.preview("first", ["web"])
    workspace.preview("second", ["api"])
    assert [*workspace.rows()] == [(DEPLOYMENT, "web")]
    workspace.take(resource_gone(workspace.second + 1, PREVIEW.kind, "first"))
    assert workspace.row("api").desired == "present"
