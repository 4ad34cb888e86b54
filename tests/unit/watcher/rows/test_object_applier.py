from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from services.common.errors import AskedAgain, GitOpsError, Permanent, Retry, Wait
from services.common.kubernetes import Manifest, NamespaceTerminating, Rejected
from services.common.messages import ChildKind, WorkspaceObject
from services.watcher.rows.object_applier import ObjectApplier
from tests.unit.watcher.manifests import COPY_LABELS, COPY_TYPE, LABELS, SPEC, child, resource
from tests.unit.watcher.rows.fake_cluster import FakeCluster, controlled_by

DEPLOYMENT, SECRET = "GitOpsDeployment", "Secret"
CONTENT = "c2VjcmV0"
MAX_BYTES = 200
COPY = child("copy", kind=ChildKind.SECRET_COPY)


@pytest.fixture
def cluster() -> FakeCluster:
    """With the owner, and a Secret to copy."""
    cluster = FakeCluster()
    cluster.add(resource("prod"))
    cluster.add(secret("login"))
    return cluster


def secret(name: str, type_: str = "Opaque", data: Any = None, **meta: Any) -> Manifest:
    metadata = {"name": name, "uid": f"uid-{name}"} | meta
    return {"kind": SECRET, "type": type_, "data": data or {"kubeconfig": CONTENT}, "metadata": metadata}


def ours(**meta: Any) -> dict[str, Any]:
    return controlled_by("prod", "uid-prod", **meta)


async def apply(cluster: Any, row: WorkspaceObject) -> bool:
    return await ObjectApplier(cluster, MAX_BYTES).apply_row(row)


async def test_child_when_there_is_none_then_it_is_made_with_its_owner_as_controller(cluster: FakeCluster) -> None:
    assert await apply(cluster, child())
    made = cluster.get(DEPLOYMENT, "web-prod")
    assert made is not None
    assert (made["spec"], made["metadata"]["labels"]) == (SPEC, LABELS)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (DEPLOYMENT, "prod", "uid-prod", True)
    assert "blockOwnerDeletion" not in owner


async def test_child_when_it_is_ours_then_it_is_applied_and_labels_of_others_stay(cluster: FakeCluster) -> None:
    drifted = resource("web-prod", spec={"type": "manual"}, **ours(labels={"theirs": "stays"}))
    cluster.add(drifted)
    assert await apply(cluster, child())
    live = cluster.get(DEPLOYMENT, "web-prod")
    assert live is not None
    assert (live["spec"], live["metadata"]["uid"]) == (SPEC, "uid-child")
    assert live["metadata"]["labels"] == {"theirs": "stays"} | LABELS


REFUSED: dict[str, tuple[dict[str, Any], type[GitOpsError], str]] = {
    "nobody-is-its-controller": ({}, Permanent, "team-a/web-prod was not made for GitOpsDeployment prod"),
    "another-is-its-controller": (
        controlled_by("shop", "uid-shop", "Environment"), Permanent, "prod: it belongs to Environment shop",
    ),
    "a-former-owner-is-its-controller": (controlled_by("prod", "former"), AskedAgain, "garbage collector"),
    "it-is-being-deleted": (ours(deletionTimestamp="2026-05-04T12:30:15Z"), AskedAgain, "being deleted"),
}  # fmt: skip


@pytest.mark.parametrize(("meta", "error", "text"), REFUSED.values(), ids=REFUSED)
async def test_child_when_an_object_of_its_name_is_not_ours_then_that_is_left_alone_and_both_are_named(
    cluster: FakeCluster, meta: dict[str, Any], error: type[GitOpsError], text: str
) -> None:
    cluster.add(resource("web-prod", spec={"type": "manual"}, **meta))
    with pytest.raises(error, match=text):
        await apply(cluster, child())
    assert cluster.calls == []


@pytest.mark.parametrize("uid", [None, "another"], ids=["gone", "made-anew"])
async def test_child_when_its_owner_is_gone_then_it_is_not_made(cluster: FakeCluster, uid: str | None) -> None:
    cluster.remove(DEPLOYMENT, "prod")
    if uid is not None:
        cluster.add(resource("prod", uid=uid))
    assert not await apply(cluster, child())
    assert cluster.calls == []


async def test_child_when_another_object_takes_the_name_meanwhile_then_nothing_of_that_is_taken_over(
    cluster: FakeCluster,
) -> None:
    cluster.before_change = [lambda: cluster.add(resource("web-prod", spec={"type": "manual"}))]
    with pytest.raises(Permanent, match="was not made for"):
        await apply(cluster, child())
    assert cluster.get(DEPLOYMENT, "web-prod")["spec"] == {"type": "manual"}  # type: ignore[index]


async def test_child_when_it_is_replaced_by_another_object_meanwhile_then_that_is_left_alone(
    cluster: FakeCluster,
) -> None:
    cluster.add(resource("web-prod", **ours()))
    cluster.before_change = [lambda: cluster.add(resource("web-prod", uid="theirs", spec={"type": "manual"}))]
    with pytest.raises(Permanent, match="was not made for"):
        await apply(cluster, child())
    assert cluster.get(DEPLOYMENT, "web-prod")["metadata"]["uid"] == "theirs"  # type: ignore[index]


async def test_child_when_it_goes_meanwhile_then_it_is_made_anew(cluster: FakeCluster) -> None:
    cluster.add(resource("web-prod", **ours()))
    cluster.before_change = [lambda: cluster.remove(DEPLOYMENT, "web-prod")]
    assert await apply(cluster, child())
    assert cluster.get(DEPLOYMENT, "web-prod")["metadata"]["uid"] == "made-1"  # type: ignore[index]


async def test_child_when_it_never_keeps_still_then_it_is_tried_again_later(cluster: FakeCluster) -> None:
    cluster.add(resource("web-prod", **ours()))
    uids = iter(range(100))
    cluster.before_change = [lambda: cluster.add(resource("web-prod", **ours(uid=f"{next(uids)}")))] * 20
    with pytest.raises(Retry, match="keeps changing"):
        await apply(cluster, child())


REMOVED: dict[str, tuple[str, dict[str, Any] | None, bool]] = {
    "of-this-uid": ("uid-child", ours(), True),
    "whichever-is-ours": ("", ours(), True),
    "of-another-uid": ("former", ours(), False),
    "of-another-controller": ("uid-child", controlled_by("shop", "uid-shop"), False),
    "not-made-by-us": ("", {}, False),
    "gone": ("uid-child", None, False),
    "on-its-way-out": ("uid-child", ours(deletionTimestamp="2026-05-04T12:30:15Z"), False),
}


@pytest.mark.parametrize(("uid", "meta", "is_deleted"), REMOVED.values(), ids=REMOVED)
async def test_child_when_absent_then_only_that_very_object_is_deleted(
    cluster: FakeCluster, uid: str, meta: dict[str, Any] | None, is_deleted: bool
) -> None:
    if meta is not None:
        cluster.add(resource("web-prod", **meta))
    assert await apply(cluster, child(desired="absent", uid=uid, manifest="")) is is_deleted
    assert cluster.calls == ["delete"] * is_deleted


async def test_child_when_absent_and_another_takes_its_name_meanwhile_then_that_stays(cluster: FakeCluster) -> None:
    cluster.add(resource("web-prod", **ours()))
    cluster.before_change = [lambda: cluster.add(resource("web-prod", uid="theirs"))]
    assert not await apply(cluster, child(desired="absent", manifest=""))
    assert cluster.get(DEPLOYMENT, "web-prod") is not None


# Copies of Secrets


async def test_copy_when_there_is_none_then_it_has_the_content_the_type_and_the_labels(cluster: FakeCluster) -> None:
    assert await apply(cluster, COPY)
    copied = cluster.get(SECRET, "copy")
    assert copied is not None
    assert (copied["type"], copied["data"]) == (COPY_TYPE, {"kubeconfig": CONTENT})
    assert copied["metadata"]["labels"] == COPY_LABELS
    assert "spec" not in copied


async def test_copy_when_its_source_has_changed_then_it_has_the_new_content(cluster: FakeCluster) -> None:
    await apply(cluster, COPY)
    cluster.add(secret("login", data={"kubeconfig": "bmV3"}))
    await apply(cluster, COPY)
    assert cluster.get(SECRET, "copy")["data"] == {"kubeconfig": "bmV3"}  # type: ignore[index]


async def test_copy_when_its_source_is_gone_then_it_goes(cluster: FakeCluster) -> None:
    await apply(cluster, COPY)
    cluster.remove(SECRET, "login")
    assert await apply(cluster, COPY)
    assert cluster.get(SECRET, "copy") is None
    assert not await apply(cluster, COPY), "and is not missed"


@pytest.mark.parametrize("changed", [{"type": "Opaque"}, {"immutable": True}], ids=["type", "immutable"])
async def test_copy_when_it_cannot_become_as_desired_then_it_is_made_anew(
    cluster: FakeCluster, changed: dict[str, Any]
) -> None:
    cluster.add(secret("copy", COPY_TYPE, **ours()) | changed)
    assert await apply(cluster, COPY)
    assert cluster.calls == ["delete", "apply"]
    copied = cluster.get(SECRET, "copy")
    assert copied is not None
    assert (copied["metadata"]["uid"], copied["type"], copied.get("immutable")) == ("made-1", COPY_TYPE, None)


async def test_copy_when_a_secret_of_its_name_is_not_ours_then_that_is_left_alone(cluster: FakeCluster) -> None:
    cluster.add(secret("copy", "kubernetes.io/tls"))
    with pytest.raises(Permanent, match="Secret team-a/copy was not made for GitOpsDeployment prod"):
        await apply(cluster, COPY)
    assert cluster.calls == []


TOKEN = "kubernetes.io/service-account-token"
NOT_COPIED: dict[str, tuple[Callable[[], Manifest], str]] = {
    "too-large": (partial(secret, "login", data={"kubeconfig": CONTENT * 50}), "too large: .* of at most 200"),
    "token-of-a-service-account": (partial(secret, "login", TOKEN), "service-account-token, which is not copied"),
}


@pytest.mark.parametrize(("source", "text"), NOT_COPIED.values(), ids=NOT_COPIED)
async def test_copy_when_its_source_is_not_copied_then_it_is_said_without_its_content(
    cluster: FakeCluster, source: Callable[[], Manifest], text: str
) -> None:
    cluster.add(source())
    with pytest.raises(Permanent, match=text) as refusal:
        await apply(cluster, COPY)
    assert CONTENT not in str(refusal.value)
    assert cluster.calls == []


async def test_copy_when_the_api_server_refuses_it_then_its_message_goes_nowhere(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.failures = [Rejected(f"denied by a webhook: {CONTENT}", 422)]
    with pytest.raises(Permanent, match="refuses Secret team-a/copy with status 422") as refusal:
        await apply(cluster, COPY)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__
    assert CONTENT not in f"{refusal.value}{caplog.text}"


@pytest.mark.parametrize(
    ("row", "plural"), [(child(), "gitopsdeployments"), (COPY, "secrets")], ids=["resource", "secret"]
)
async def test_child_when_it_may_not_be_made_then_it_waits_and_the_rights_are_named(
    cluster: FakeCluster, row: WorkspaceObject, plural: str
) -> None:
    cluster.failures = [Rejected("forbidden", 403)]
    with pytest.raises(Wait, match=f"grant 'create', 'patch' and 'delete' on {plural}"):
        await apply(cluster, row)


@pytest.mark.parametrize(
    "error", [Rejected("exceeded quota", 403), NamespaceTerminating("being terminated")], ids=["quota", "terminating"]
)
async def test_child_when_nothing_may_be_made_in_its_namespace_then_it_is_left_to_be_asked_for_again(
    cluster: FakeCluster, error: GitOpsError
) -> None:
    cluster.failures = [error]
    with pytest.raises(AskedAgain, match=str(error)):
        await apply(cluster, child())


async def test_child_when_it_is_there_and_may_not_be_changed_then_it_waits_for_nobody_asks_again(
    cluster: FakeCluster,
) -> None:
    cluster.add(resource("web-prod", spec={"type": "manual"}, **ours()))
    cluster.failures = [Rejected("forbidden", 403)]
    with pytest.raises(Wait, match="grant") as waiting:
        await apply(cluster, child())
    assert not isinstance(waiting.value, AskedAgain)


async def test_child_when_the_api_server_refuses_it_then_that_is_what_it_says(cluster: FakeCluster) -> None:
    cluster.failures = [Rejected("spec.type: unsupported", 422)]
    with pytest.raises(Rejected, match=r"spec\.type"):
        await apply(cluster, child())


async def test_label_when_the_manifest_names_none_then_the_object_is_applied_without(cluster: FakeCluster) -> None:
    manifest = orjson.dumps({"labels": {}, "annotations": {}, "spec": SPEC}).decode()
    assert await apply(cluster, child(manifest=manifest))
    assert not cluster.get(DEPLOYMENT, "web-prod")["metadata"].get("labels")  # type: ignore[index]
