"""Objects that no resource owns: what a row may have made, changed or deleted of them, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from services.common.errors import Poison, Retry, Wait
from services.common.kubernetes import Manifest, Rejected
from services.common.messages import UnownedKind, WorkspaceObject
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, FINALIZER, PROVISIONER
from services.kinds.space_request.model import SPACE_REQUEST
from services.watcher.rows.child_manifest import require_known_child
from services.watcher.rows.object_applier import ObjectApplier
from tests.unit.watcher.manifests import resource, unowned
from tests.unit.watcher.rows.fake_cluster import FakeCluster

CLAIM, TARGET = "DeploymentTargetClaim", "DeploymentTarget"
DELETING = "2026-05-04T12:30:15Z"
BOUND = unowned(
    spec={"targetName": "dev-dt"},
    annotations={BIND_COMPLETE: "true", PROVISIONER: None},
    finalizers={FINALIZER: True},
)
NEW_TARGET = unowned(UnownedKind.TARGET, "dev-dt", uid="", spec={"claimRef": "dev", "kubernetesCredentials": {"a": 1}})


@pytest.fixture
def cluster() -> FakeCluster:
    """With whoever wants it."""
    cluster = FakeCluster()
    cluster.add(resource("prod"))
    return cluster


def claim(name: str = "dev", spec: Any = None, **meta: Any) -> Manifest:
    metadata = {"name": name, "uid": f"uid-{name}"} | meta
    return {"kind": CLAIM, "metadata": metadata, "spec": {"deploymentTargetClassName": "space"} | (spec or {})}


def target(**meta: Any) -> Manifest:
    return {"kind": TARGET, "metadata": {"name": "dev-dt", "uid": "uid-dev-dt"} | meta, "spec": {}}


async def apply(cluster: Any, row: WorkspaceObject) -> bool:
    return await ObjectApplier(cluster, 1000).apply_row(require_known_child(row))


async def test_object_when_it_is_patched_then_it_says_what_the_row_does_and_all_else_stays(
    cluster: FakeCluster,
) -> None:
    cluster.add(claim(annotations={"theirs": "stays", PROVISIONER: "space"}, finalizers=["theirs/finalizer"]))
    assert await apply(cluster, BOUND)
    live = cluster.get(CLAIM, "dev")
    assert live is not None
    assert live["spec"] == {"deploymentTargetClassName": "space", "targetName": "dev-dt"}
    assert live["metadata"]["annotations"] == {"theirs": "stays", BIND_COMPLETE: "true"}
    assert live["metadata"]["finalizers"] == ["theirs/finalizer", FINALIZER]
    assert "ownerReferences" not in live["metadata"]


async def test_object_when_it_says_so_already_then_nothing_is_written(cluster: FakeCluster) -> None:
    cluster.add(claim())
    await apply(cluster, BOUND)
    assert not await apply(cluster, BOUND)
    assert cluster.calls == ["patch"]


async def test_object_when_somebody_undoes_the_patch_then_the_row_does_it_again(cluster: FakeCluster) -> None:
    cluster.add(claim())
    await apply(cluster, BOUND)
    cluster.add(claim(spec={"targetName": "mine"}))
    assert await apply(cluster, BOUND)
    assert cluster.get(CLAIM, "dev")["spec"]["targetName"] == "dev-dt"  # type: ignore[index]


@pytest.mark.parametrize("desired", ["present", "absent"])
async def test_object_when_another_one_has_its_name_then_that_is_left_alone(cluster: FakeCluster, desired: str) -> None:
    cluster.add(target(uid="successor"))
    row = unowned(UnownedKind.TARGET, "dev-dt", desired=desired, spec={"claimRef": "dev"})
    assert not await apply(cluster, row)
    assert cluster.calls == []


async def test_object_when_another_one_takes_its_name_meanwhile_then_that_is_left_alone(cluster: FakeCluster) -> None:
    cluster.add(claim())
    cluster.before_change = [lambda: cluster.add(claim(uid="successor"))]
    assert not await apply(cluster, BOUND)
    assert cluster.get(CLAIM, "dev")["spec"] == {"deploymentTargetClassName": "space"}  # type: ignore[index]


async def test_finalizer_when_somebody_else_puts_one_on_meanwhile_then_neither_is_lost(cluster: FakeCluster) -> None:
    cluster.add(claim())
    cluster.before_change = [lambda: cluster.add(claim(finalizers=["theirs/finalizer"]))]
    assert await apply(cluster, BOUND)
    assert cluster.get(CLAIM, "dev")["metadata"]["finalizers"] == ["theirs/finalizer", FINALIZER]  # type: ignore[index]


async def test_finalizer_when_it_is_taken_off_then_those_of_others_stay_in_their_order(cluster: FakeCluster) -> None:
    cluster.add(claim(finalizers=["a/first", FINALIZER, "b/last"], deletionTimestamp=DELETING))
    assert await apply(cluster, unowned(finalizers={FINALIZER: False}))
    assert cluster.get(CLAIM, "dev")["metadata"]["finalizers"] == ["a/first", "b/last"]  # type: ignore[index]


async def test_finalizer_when_the_object_is_being_deleted_then_it_is_not_put_on(cluster: FakeCluster) -> None:
    """The API server would refuse it."""
    cluster.add(claim(deletionTimestamp=DELETING, finalizers=["a/first"]))
    assert not await apply(cluster, unowned(finalizers={FINALIZER: True}))


async def test_object_when_it_is_made_then_it_has_no_owner_and_is_not_made_twice(cluster: FakeCluster) -> None:
    assert await apply(cluster, NEW_TARGET)
    made = cluster.get(TARGET, "dev-dt")
    assert made is not None
    assert made["spec"] == {"claimRef": "dev", "kubernetesCredentials": {"a": 1}}
    assert "ownerReferences" not in made["metadata"]
    assert not await apply(cluster, NEW_TARGET)


async def test_object_when_one_of_its_name_is_there_then_that_is_left_as_it_is(cluster: FakeCluster) -> None:
    cluster.add(target())
    assert not await apply(cluster, NEW_TARGET)
    assert cluster.get(TARGET, "dev-dt")["spec"] == {}  # type: ignore[index]


@pytest.mark.parametrize("row", [BOUND, NEW_TARGET], ids=["patched", "made"])
async def test_object_when_who_wants_it_is_gone_then_nothing_is_done(
    cluster: FakeCluster, row: WorkspaceObject
) -> None:
    cluster.remove("GitOpsDeployment", "prod")
    cluster.add(claim())
    assert not await apply(cluster, row)
    assert cluster.calls == []


async def test_object_when_it_is_deleted_then_once_and_by_its_uid(cluster: FakeCluster) -> None:
    row = unowned(UnownedKind.TARGET, "dev-dt", desired="absent")
    cluster.add(target(deletionTimestamp=DELETING))
    assert not await apply(cluster, row), "asked for already"
    cluster.add(target())
    assert await apply(cluster, row)
    assert cluster.get(TARGET, "dev-dt") is None
    assert not await apply(cluster, row)


async def test_object_when_a_row_names_no_uid_to_delete_then_nothing_is_deleted(cluster: FakeCluster) -> None:
    """As a rebuild writes it of a key that no row has."""
    cluster.add(target())
    assert not await apply(cluster, unowned(UnownedKind.TARGET, "dev-dt", desired="absent", uid=""))
    assert cluster.get(TARGET, "dev-dt") is not None


async def test_object_when_it_never_keeps_still_then_it_is_tried_again_later(cluster: FakeCluster) -> None:
    cluster.add(claim())
    cluster.before_change = [lambda: cluster.add(claim())] * 20
    with pytest.raises(Retry, match="keeps changing"):
        await apply(cluster, BOUND)


async def test_object_when_rights_are_missing_then_it_waits_and_they_are_named(cluster: FakeCluster) -> None:
    cluster.add(claim())
    cluster.failures = [Rejected("forbidden", 403)]
    with pytest.raises(Wait, match="on deploymenttargetclaims"):
        await apply(cluster, BOUND)


REFUSED: dict[str, tuple[WorkspaceObject, str]] = {
    "another-field": (unowned(spec={"deploymentTargetClassName": "other"}), "spec deploymentTargetClassName"),
    "another-annotation": (unowned(annotations={"kubectl.kubernetes.io/restartedAt": "now"}), "annotations kubectl"),
    "a-label": (unowned(labels={"a": "b"}), "labels a"),
    "finalizer-of-somebody-else": (unowned(finalizers={"theirs/finalizer": False}), "finalizers theirs"),
    "field-that-is-no-text": (unowned(spec={"targetName": {"a": 1}}), "are texts"),
    "finalizer-neither-on-nor-off": (unowned(finalizers={FINALIZER: "yes"}), "whether it is on"),
    "a-claim-is-made": (unowned(uid=""), "does not create a DeploymentTargetClaim"),
    "an-environment-is-made": (unowned(UnownedKind.ENVIRONMENT, uid=""), "does not create a Environment"),
    "an-environment-is-changed": (unowned(UnownedKind.ENVIRONMENT, spec={"displayName": "x"}), "spec displayName"),
    "label-of-what-is-made": (unowned(UnownedKind.TARGET, uid="", labels={"a": "b"}), "labels a"),
    "no-manifest": (unowned(manifest="[]"), "not the manifest"),
    "a-part-is-missing": (unowned(manifest='{"spec":{}}'), "not the manifest"),
    "neither-present-nor-absent": (unowned(desired="patched"), "present or absent"),
}


@pytest.mark.parametrize(("row", "text"), REFUSED.values(), ids=REFUSED)
def test_row_when_it_asks_for_more_than_the_closed_list_then_it_is_a_poison(row: WorkspaceObject, text: str) -> None:
    with pytest.raises(Poison, match=text):
        require_known_child(row)


CONDITIONAL = unowned(UnownedKind.BINDING, "web", desired="absent", unless={"Application": "shop"})


def binding(**meta: Any) -> Manifest:
    return {"kind": "SnapshotEnvironmentBinding", "metadata": {"name": "web", "uid": "uid-web"} | meta, "spec": {}}


def application(name: str = "shop") -> Manifest:
    return {"kind": "Application", "metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}}


async def test_deletion_when_what_the_object_needs_is_not_there_then_it_is_carried_out(cluster: FakeCluster) -> None:
    cluster.add(binding())
    cluster.add(application("blog"))
    assert await apply(cluster, CONDITIONAL)
    assert cluster.get("SnapshotEnvironmentBinding", "web") is None


async def test_deletion_when_what_the_object_needs_is_there_then_nothing_is_deleted(cluster: FakeCluster) -> None:
    cluster.add(binding())
    cluster.add(application())
    assert not await apply(cluster, CONDITIONAL)
    assert cluster.calls == []


async def test_target_when_the_claim_that_it_was_made_for_is_there_after_all_then_it_is_not_deleted(
    cluster: FakeCluster,
) -> None:
    row = unowned(UnownedKind.TARGET, "dev-dt", desired="absent", unless={"DeploymentTargetClaim": "dev"})
    cluster.add({"kind": "DeploymentTarget", "metadata": {"name": "dev-dt", "uid": "uid-dev-dt"}, "spec": {}})
    cluster.add({"kind": "DeploymentTargetClaim", "metadata": {"name": "dev", "uid": "uid-dev"}, "spec": {}})
    assert not await apply(cluster, row)
    cluster.remove("DeploymentTargetClaim", "dev")
    assert await apply(cluster, row)
    assert cluster.get("DeploymentTarget", "dev-dt") is None


@pytest.mark.parametrize(
    "keeper",
    [
        {"kind": CLAIM, "metadata": {"name": "dev", "uid": "u"}},
        {"kind": TARGET, "metadata": {"name": "dev-dt", "uid": "u"}},
        {"kind": TARGET, "metadata": {"name": "dev-dt-1", "uid": "u"}},
    ],
    ids=["claim", "target", "target of the other name"],
)
async def test_space_request_when_its_claim_or_its_target_is_there_after_all_then_it_is_not_deleted(
    cluster: FakeCluster, keeper: Manifest
) -> None:
    """It asks for that itself: there is nobody else who could."""
    owner = {"owner_kind": "SpaceRequest", "owner_api_version": SPACE_REQUEST.api_version, "owner_name": "dev-1"}
    unless = {CLAIM: "dev", TARGET: ["dev-dt", "dev-dt-1"]}
    row = unowned(UnownedKind.SPACE_REQUEST, "dev-1", desired="absent", unless=unless, owner_uid="uid-dev-1", **owner)
    cluster.add({"kind": "SpaceRequest", "metadata": {"name": "dev-1", "uid": "uid-dev-1"}, "spec": {}})
    cluster.add(keeper | {"spec": {}})
    assert not await apply(cluster, row)
    cluster.remove(keeper["kind"], keeper["metadata"]["name"])
    assert await apply(cluster, row)
    assert cluster.get("SpaceRequest", "dev-1") is None


async def test_deletion_when_its_kind_is_not_served_then_nothing_is_deleted(cluster: FakeCluster) -> None:
    cluster.add(binding())
    cluster.unserved.add("Application")
    assert not await apply(cluster, CONDITIONAL)
    assert cluster.calls == []


async def test_deletion_when_what_the_object_needs_may_not_be_read_then_it_waits_for_the_right(
    cluster: FakeCluster,
) -> None:
    cluster.add(binding())
    cluster.unreadable.add("Application")
    with pytest.raises(Wait, match="grant 'get' on applications"):
        await apply(cluster, CONDITIONAL)
    assert cluster.calls == []


async def test_deletion_when_a_successor_has_the_name_then_that_is_left_alone(cluster: FakeCluster) -> None:
    cluster.add(binding(uid="successor"))
    assert not await apply(cluster, CONDITIONAL)


@pytest.mark.parametrize(
    "unless",
    [
        {"Secret": "login"},
        {"Application": 1},
        {"Application": ""},
        {"Application": []},
        {"Application": ["shop", 1]},
        ["Application"],
        "Application",
        None,
    ],
)
def test_deletion_when_a_row_names_anything_else_then_it_is_a_poison(unless: Any) -> None:
    with pytest.raises(Poison):
        require_known_child(unowned(UnownedKind.BINDING, "web", desired="absent", unless=unless))


def test_deletion_when_the_kind_is_kept_by_nothing_then_a_row_that_says_so_is_a_poison() -> None:
    with pytest.raises(Poison):
        require_known_child(unowned(UnownedKind.CLAIM, desired="absent", unless={"Application": "shop"}))
