"""Changes of objects that are no children, from a row to the API server, on a real broker and a real API server.

The installation's kinds need not want any: here a GitOpsDeployment does.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
import pytest

from services.common.kubernetes import Conflict, KubeClient, Manifest, NotFound
from services.common.messages import UnownedKind, WorkspaceObject
from services.kinds.application.kind import APPLICATION
from services.kinds.deployment_target.model import DEPLOYMENT_TARGET
from services.kinds.deployment_target.rows import FINALIZER as TARGET_FINALIZER
from services.kinds.deployment_target_claim.model import DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_claim.rows import BIND_COMPLETE, FINALIZER, PROVISIONER
from services.kinds.snapshot_environment_binding.model import BINDING
from services.watcher.rows.object_applier import ObjectApplier
from services.watcher.unowned_kinds import UNOWNED_RESOURCES
from tests.component.watcher.rig import USER, Rig, Tenant
from tests.component.watcher.test_objects_applied import applied, child

THEIRS = "example.com/theirs"
CLAIM_SPEC = {"deploymentTargetClassName": "space"}
TARGET_SPEC = {
    "deploymentTargetClassName": "space",
    "kubernetesCredentials": {
        "defaultNamespace": "spaces-1",
        "apiURL": "https://api.example.com",
        "clusterCredentialsSecret": "login",
        "allowInsecureSkipTLSVerify": False,
    },
}
BINDING_SPEC = {"application": "shop", "environment": "dev", "snapshot": "one", "components": [{"name": "web"}]}


def change(rig: Rig, owner: Manifest, kind: UnownedKind, name: str, uid: str, **parts: Any) -> WorkspaceObject:
    """The row that the planner would compile for what ``owner`` wants of an object."""
    names = ("spec", "labels", "annotations", "finalizers", "unless")
    manifest = orjson.dumps({part: parts.pop(part, {}) for part in names}).decode()
    return child(rig, owner, name, kind=kind.value, uid=uid, manifest=manifest, **parts)


def bound(rig: Rig, owner: Manifest, uid: str, **columns: Any) -> WorkspaceObject:
    """Likewise of a claim that has got a target."""
    return change(
        rig,
        owner,
        UnownedKind.CLAIM,
        "dev",
        uid,
        spec={"targetName": "dev-dt"},
        annotations={BIND_COMPLETE: "true", PROVISIONER: None},
        finalizers={FINALIZER: True},
        **columns,
    )


async def create_claim(tenant: Tenant, **meta: Any) -> Manifest:
    return await create(tenant.kube, tenant, CLAIM_SPEC, **meta)


async def create(kube: KubeClient, tenant: Tenant, spec: Any, **meta: Any) -> Manifest:
    resource = DEPLOYMENT_TARGET_CLAIM
    manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "dev", "namespace": tenant.namespace} | meta,
        "spec": spec,
    }
    return await kube.create_object(resource, manifest, field_manager=USER)


async def claim_of(tenant: Tenant) -> Manifest:
    return await tenant.kube.get_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev")


async def test_object_when_its_row_comes_then_it_is_patched_by_uid_and_drift_is_undone_by_a_new_revision(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    meta = {"annotations": {"theirs": "stays", PROVISIONER: "space"}, "finalizers": [THEIRS]}
    uid = (await create_claim(tenant, **meta))["metadata"]["uid"]
    async with rig.watcher():
        await applied(rig, bound(rig, owner, uid))
        live = await claim_of(tenant)
        assert live["spec"] == CLAIM_SPEC | {"targetName": "dev-dt"}
        assert live["metadata"]["annotations"] == {"theirs": "stays", BIND_COMPLETE: "true"}
        assert live["metadata"]["finalizers"] == [THEIRS, FINALIZER]
        await applied(rig, bound(rig, owner, uid))
        version = live["metadata"]["resourceVersion"]
        assert (await claim_of(tenant))["metadata"]["resourceVersion"] == version, "nothing was written again"
        undone = {"spec": {"targetName": "mine"}, "metadata": {"annotations": {BIND_COMPLETE: None}}}
        await tenant.kube.patch_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev", undone, field_manager=USER)
        await applied(rig, bound(rig, owner, uid, revision=2))
    live = await claim_of(tenant)
    assert (live["spec"]["targetName"], live["metadata"]["annotations"][BIND_COMPLETE]) == ("dev-dt", "true")
    await release(tenant, DEPLOYMENT_TARGET_CLAIM, "dev")


async def test_object_when_a_successor_has_its_name_then_that_is_never_touched(rig: Rig, tenant: Tenant) -> None:
    owner, former = await tenant.create("prod"), await create_claim(tenant)
    await tenant.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev")
    successor = await create_claim(tenant)
    assert not await ObjectApplier(tenant.kube, 1000).apply_row(bound(rig, owner, former["metadata"]["uid"]))
    assert (await claim_of(tenant))["metadata"] == successor["metadata"]


async def test_patch_when_the_object_was_made_anew_since_it_was_read_then_the_api_server_refuses_it(
    tenant: Tenant,
) -> None:
    former = (await create_claim(tenant))["metadata"]
    await tenant.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev")
    await create_claim(tenant)
    version = {name: former[name] for name in ("uid", "resourceVersion")}
    patch = {"metadata": version, "spec": {"targetName": "t"}}
    with pytest.raises(Conflict):
        await tenant.kube.patch_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev", patch, field_manager=USER)


async def test_finalizer_when_it_is_taken_off_then_the_object_goes_unless_others_keep_it(
    rig: Rig, tenant: Tenant
) -> None:
    owner, applier = await tenant.create("prod"), ObjectApplier(tenant.kube, 1000)
    meta = (await create_claim(tenant, finalizers=["example.com/first", FINALIZER, THEIRS]))["metadata"]
    await tenant.kube.delete_object(DEPLOYMENT_TARGET_CLAIM, tenant.namespace, "dev")
    row = change(rig, owner, UnownedKind.CLAIM, "dev", meta["uid"], finalizers={FINALIZER: False})
    assert await applier.apply_row(row)
    assert (await claim_of(tenant))["metadata"]["finalizers"] == ["example.com/first", THEIRS]
    await release(tenant, DEPLOYMENT_TARGET_CLAIM, "dev")
    assert not await applier.apply_row(row)


async def release(tenant: Tenant, kind: Any, name: str) -> None:
    """Let it go, whatever it waits for."""
    patch = {"metadata": {"finalizers": None}}
    await tenant.kube.patch_object(kind, tenant.namespace, name, patch, field_manager=USER)


async def test_target_when_it_is_made_patched_and_deleted_then_the_api_server_takes_each_of_it(
    rig: Rig, tenant: Tenant
) -> None:
    owner, applier = await tenant.create("prod"), ObjectApplier(tenant.kube, 1000)
    made = change(rig, owner, UnownedKind.TARGET, "dev-dt", "", spec=TARGET_SPEC | {"claimRef": "dev"})
    assert await applier.apply_row(made)
    assert not await applier.apply_row(made)
    meta = (await tenant.kube.get_object(DEPLOYMENT_TARGET, tenant.namespace, "dev-dt"))["metadata"]
    assert "ownerReferences" not in meta
    held = change(
        rig,
        owner,
        UnownedKind.TARGET,
        "dev-dt",
        meta["uid"],
        spec={"claimRef": None},
        finalizers={TARGET_FINALIZER: True},
    )
    assert await applier.apply_row(held)
    live = await tenant.kube.get_object(DEPLOYMENT_TARGET, tenant.namespace, "dev-dt")
    assert (live["spec"], live["metadata"]["finalizers"]) == (TARGET_SPEC, [TARGET_FINALIZER])
    assert await applier.apply_row(change(rig, owner, UnownedKind.TARGET, "dev-dt", meta["uid"], desired="absent"))
    off = change(rig, owner, UnownedKind.TARGET, "dev-dt", meta["uid"], finalizers={TARGET_FINALIZER: False})
    assert await applier.apply_row(off)
    with pytest.raises(NotFound):
        await tenant.kube.get_object(DEPLOYMENT_TARGET, tenant.namespace, "dev-dt")


async def test_binding_when_its_snapshot_is_set_then_what_may_not_change_stays(rig: Rig, tenant: Tenant) -> None:
    owner, applier = await tenant.create("prod"), ObjectApplier(tenant.kube, 1000)
    meta = (await tenant.create_any(BINDING, "shop-dev", spec=BINDING_SPEC))["metadata"]
    row = change(rig, owner, UnownedKind.BINDING, "shop-dev", meta["uid"], spec={"snapshot": "two"})
    assert await applier.apply_row(row)
    live = await tenant.kube.get_object(BINDING, tenant.namespace, "shop-dev")
    assert live["spec"] == BINDING_SPEC | {"snapshot": "two"}


async def test_binding_when_its_application_is_missing_then_it_goes_but_not_because_nobody_serves_such(
    rig: Rig, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, applier = await tenant.create("prod"), ObjectApplier(tenant.kube, 1000)
    await tenant.create_any(APPLICATION, "shop", spec={"displayName": "Shop"})
    meta = (await tenant.create_any(BINDING, "shop-dev", spec=BINDING_SPEC))["metadata"]
    row = change(
        rig, owner, UnownedKind.BINDING, "shop-dev", meta["uid"], desired="absent", unless={"Application": "shop"}
    )
    assert not await applier.apply_row(row), "it is there"
    await tenant.kube.delete_object(APPLICATION, tenant.namespace, "shop")
    with monkeypatch.context() as patched:
        unserved = replace(UNOWNED_RESOURCES[BINDING.kind], kept_by=frozenset({replace(APPLICATION, plural="guests")}))
        patched.setitem(UNOWNED_RESOURCES, BINDING.kind, unserved)
        assert not await applier.apply_row(row), "nobody knows"
    assert (await tenant.kube.get_object(BINDING, tenant.namespace, "shop-dev"))["metadata"]["uid"] == meta["uid"]
    assert await applier.apply_row(row)
    with pytest.raises(NotFound):
        await tenant.kube.get_object(BINDING, tenant.namespace, "shop-dev")


async def test_row_when_it_asks_for_more_than_is_listed_then_it_is_a_dead_letter_and_nothing_is_written(
    rig: Rig, tenant: Tenant
) -> None:
    owner, before = await tenant.create("prod"), await create_claim(tenant)
    uid = before["metadata"]["uid"]
    async with rig.watcher():
        await applied(rig, change(rig, owner, UnownedKind.CLAIM, "dev", uid, finalizers={THEIRS: True}))
    assert (await claim_of(tenant))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    (letter,) = await asyncio.to_thread(rig.dead_objects)
    assert f"does not change finalizers {THEIRS}" in letter.error
