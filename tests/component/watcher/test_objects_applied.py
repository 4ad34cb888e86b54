"""Child objects, from a row to the API server, on a real broker and a real API server."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client import REGISTRY

from services.common.kubernetes import SECRET, Conflict, KubeClient, Manifest, NotFound
from services.common.messages import ChildKind, WorkspaceObject
from services.common.ownership import WATCHER_FIELD_MANAGER
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.watcher.rows.delivery import ASKED_AGAIN_AFTER
from tests.component.watcher.rig import DEADLINE_SECONDS, USER, Rig, Tenant, until
from tests.component.watcher.test_fairness import another_tenant
from tests.component.watcher.test_status_written import SYNCED, compiled

SPEC: dict[str, Any] = {
    "type": "automated",
    "source": {"repoURL": "https://example.com/a.git", "path": "overlays/prod"},
}
COPY_TYPE = "managed-gitops.redhat.com/managed-environment"
OTHER = "example.com/keeps-it"
OURS, NO_MORE = "appstudio.openshift.io/application", "appstudio.openshift.io/component"


def child(rig: Rig, owner: Manifest, name: str = "web-prod", **columns: Any) -> WorkspaceObject:
    """The row that the planner would compile for a child of ``owner``."""
    meta = owner["metadata"]
    parts = {"labels": columns.pop("labels", {}), "annotations": {}, "spec": columns.pop("spec", SPEC)}
    values: dict[str, Any] = {
        "workspace": rig.settings.workspace,
        "namespace": meta["namespace"],
        "kind": ChildKind.DEPLOYMENT.value,
        "name": name,
        "desired": "present",
        "uid": "",
        "owner_api_version": owner["apiVersion"],
        "owner_kind": owner["kind"],
        "owner_name": meta["name"],
        "owner_uid": meta["uid"],
        "manifest": orjson.dumps(parts).decode(),
        "digest": "d",
        "revision": 1,
        "trace_id": "",
        "seen_at": datetime.now(UTC),
        "deleted": False,
    }
    return WorkspaceObject(**values | columns)


def copied(rig: Rig, owner: Manifest, **columns: Any) -> WorkspaceObject:
    """Likewise of the copy of the Secret ``login``."""
    spec = {"from": "login", "type": COPY_TYPE}
    return child(rig, owner, "copy", kind=ChildKind.SECRET_COPY.value, spec=spec, **columns)


def measured(metric: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(metric, labels) or 0


def waits() -> float:
    return measured("gitops_errors_total", service="watcher", type="wait", operation="object")


async def applied(rig: Rig, *rows: WorkspaceObject) -> None:
    """These rows have had their effects, or their dead letters are written."""
    for row in rows:
        offset = rig.objects.write(row)
    await rig.until_objects_committed(offset + 1)


async def test_row_when_compiled_then_its_object_is_made_and_its_offset_is_committed(rig: Rig, tenant: Tenant) -> None:
    owner = await tenant.create("prod")
    labels = {"stage": "object", "kind": "GitOpsDeployment"}
    before = measured("gitops_end_to_end_seconds_count", **labels)
    async with rig.watcher():
        await applied(rig, child(rig, owner, labels={"appstudio.openshift.io/application": "shop"}))
    made = await tenant.get("web-prod")
    assert made["spec"]["source"]["path"] == "overlays/prod"
    assert made["metadata"]["labels"] == {"appstudio.openshift.io/application": "shop"}
    (reference,) = made["metadata"]["ownerReferences"]
    assert reference == {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": "prod",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    assert measured("gitops_end_to_end_seconds_count", **labels) == before + 1


async def test_object_when_it_has_drifted_then_a_new_revision_undoes_that_and_keeps_what_is_others(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    row = child(rig, owner, labels={OURS: "before", NO_MORE: "of-use"})
    async with rig.watcher():
        await applied(rig, row)
        theirs = {"metadata": {"labels": {"theirs": "stays", OURS: "theirs"}}, "spec": {"type": "manual"}}
        before = await tenant.patch("web-prod", theirs)
        await applied(rig, replace(child(rig, owner, labels={OURS: "after"}), revision=2))
    after = await tenant.get("web-prod")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["type"] == "automated"
    assert after["metadata"]["labels"] == {"theirs": "stays", OURS: "after"}


async def test_object_when_the_same_row_comes_again_then_nothing_is_written(rig: Rig, tenant: Tenant) -> None:
    owner = await tenant.create("prod")
    async with rig.watcher():
        await applied(rig, child(rig, owner))
        first = await tenant.get("web-prod")
        await applied(rig, child(rig, owner))
    assert (await tenant.get("web-prod"))["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_object_when_somebody_else_has_its_name_then_that_stays_and_the_row_is_a_dead_letter(
    rig: Rig, tenant: Tenant
) -> None:
    owner, foreign = await tenant.create("prod"), await tenant.create("web-prod", path="theirs")
    async with rig.watcher():
        await applied(rig, child(rig, owner), child(rig, owner, "api-prod"))
    assert (await tenant.get("web-prod"))["metadata"] == foreign["metadata"]
    assert (await tenant.get("api-prod"))["spec"]["source"]["path"] == "overlays/prod"
    (letter,) = await asyncio.to_thread(rig.dead_objects)
    assert f"{tenant.namespace}/web-prod was not made for GitOpsDeployment prod" in letter.error


async def test_row_when_it_asks_for_more_than_is_listed_then_it_is_a_dead_letter_and_nothing_is_made(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    more = SPEC | {"source": SPEC["source"] | {"helm": {"values": "a"}}}
    async with rig.watcher():
        await applied(rig, child(rig, owner, spec=more), child(rig, owner, "api-prod"))
    assert (await tenant.get("api-prod"))["spec"]["source"]["path"] == "overlays/prod"
    with pytest.raises(NotFound):
        await tenant.get("web-prod")
    (letter,) = await asyncio.to_thread(rig.dead_objects)
    assert "no spec source.helm.values" in letter.error


async def test_object_when_its_owner_was_made_anew_then_it_is_not_made_for_the_former_one(
    rig: Rig, tenant: Tenant
) -> None:
    former = await tenant.create("prod")
    await tenant.delete("prod")
    await tenant.create("prod")
    async with rig.watcher():
        await applied(rig, child(rig, former), child(rig, await tenant.create("other"), "of-the-other"))
    with pytest.raises(NotFound):
        await tenant.get("web-prod")
    await tenant.get("of-the-other")


async def test_object_when_absent_then_only_the_one_of_its_uid_goes(rig: Rig, tenant: Tenant) -> None:
    owner = await tenant.create("prod")
    async with rig.watcher():
        await applied(rig, child(rig, owner))
        made = (await tenant.get("web-prod"))["metadata"]
        await applied(rig, child(rig, owner, desired="absent", uid=str(uuid.uuid4())))
        assert (await tenant.get("web-prod"))["metadata"]["uid"] == made["uid"]
        await applied(rig, child(rig, owner, desired="absent", uid=made["uid"]))
        with pytest.raises(NotFound):
            await tenant.get("web-prod")
        await applied(rig, child(rig, owner, desired="absent", uid=made["uid"]))  # gone already


async def secret_content(tenant: Tenant, name: str) -> dict[str, str]:
    secret = await tenant.kube.get_object(SECRET, tenant.namespace, name)
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


async def test_copy_when_its_source_changes_and_goes_then_it_follows(rig: Rig, tenant: Tenant) -> None:
    owner = await tenant.create("prod")
    await tenant.create_secret("login", "Opaque", kubeconfig="first", more="at first")
    async with rig.watcher():
        await applied(rig, copied(rig, owner, labels={"appstudio.openshift.io/environment-secret": "prod"}))
        copy = await tenant.kube.get_object(SECRET, tenant.namespace, "copy")
        assert copy["type"] == COPY_TYPE
        assert copy["metadata"]["labels"] == {"appstudio.openshift.io/environment-secret": "prod"}
        assert await secret_content(tenant, "copy") == {"kubeconfig": "first", "more": "at first"}
        changed = {"stringData": {"kubeconfig": "second"}, "data": {"more": None}}
        await tenant.kube.patch_object(SECRET, tenant.namespace, "login", changed, field_manager=USER)
        await applied(rig, copied(rig, owner, revision=2))
        assert await secret_content(tenant, "copy") == {"kubeconfig": "second"}
        await tenant.kube.delete_object(SECRET, tenant.namespace, "login")
        await applied(rig, copied(rig, owner, revision=3))
    with pytest.raises(NotFound):
        await tenant.kube.get_object(SECRET, tenant.namespace, "copy")


async def test_copy_when_it_is_refused_then_its_dead_letter_says_nothing_of_the_content(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    await tenant.create_secret("login", "Opaque", kubeconfig="hush" * 1000)
    async with rig.watcher(max_secret_bytes=1024):
        await applied(rig, copied(rig, owner))
    (letter,) = await asyncio.to_thread(rig.dead_objects)
    assert "login is not copied: the Secret is too large" in letter.error
    assert b"hush" not in (letter.value or b"") + letter.error.encode()


async def test_namespaces_when_one_is_in_trouble_then_its_other_objects_and_the_other_namespace_are_served(
    rig: Rig, tenant: Tenant, kube: KubeClient
) -> None:
    quiet = await another_tenant(kube, tenant)
    owner, other_owner = await tenant.create("prod"), await quiet.create("prod")
    await tenant.create("stuck", finalizers=(OTHER,))
    await tenant.delete("stuck")
    before = waits()
    async with rig.watcher():
        young = datetime.now(UTC) + timedelta(hours=1)  # it waits as long as this test takes
        stuck = rig.objects.write(child(rig, owner, "stuck", seen_at=young))
        await until(lambda: waits() > before)
        rig.objects.write(child(rig, owner))
        offset = rig.objects.write(child(rig, other_owner))
        for each in (tenant, quiet):
            await until_there(each, "web-prod")
        assert await asyncio.to_thread(rig.objects_committed) <= stuck, "what is behind it is not committed"
        await tenant.patch("stuck", {"metadata": {"finalizers": None}})
        await rig.until_objects_committed(offset + 1)
    assert (await tenant.get("stuck"))["spec"]["source"]["path"] == "overlays/prod"


async def test_object_when_another_keeps_its_name_for_long_then_its_row_is_let_go_and_written_when_asked_for_again(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    await tenant.create("stuck", finalizers=(OTHER,))
    await tenant.delete("stuck")
    row = child(rig, owner, "stuck", seen_at=datetime.now(UTC) - ASKED_AGAIN_AFTER)
    async with rig.watcher():
        await applied(rig, row)
        assert "deletionTimestamp" in (await tenant.get("stuck"))["metadata"]
        await tenant.patch("stuck", {"metadata": {"finalizers": None}})
        await applied(rig, replace(row, revision=2))
    assert (await tenant.get("stuck"))["spec"]["source"]["path"] == "overlays/prod"


async def test_namespaces_when_one_has_many_objects_then_anothers_single_one_is_not_last(
    rig: Rig, tenant: Tenant, kube: KubeClient
) -> None:
    quiet = await another_tenant(kube, tenant)
    owner, other_owner = await tenant.create("prod"), await quiet.create("prod")
    many = [child(rig, owner, f"web-{number}") for number in range(60)]
    rows = [*many, child(rig, other_owner)]
    offset = [rig.objects.write(row) for row in rows][-1]
    async with rig.watcher():
        await rig.until_objects_committed(offset + 1)
    written = await version_of(quiet, "web-prod")
    assert sum([await version_of(tenant, row.name) < written for row in many]) < 30, "its turn came after everybody's"


async def test_copy_when_it_comes_after_many_objects_then_it_is_there_before_most_of_them(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    await tenant.create_secret("login", "Opaque", kubeconfig="content")
    many = [child(rig, owner, f"web-{number}") for number in range(60)]
    offset = [rig.objects.write(row) for row in [*many, copied(rig, owner)]][-1]
    async with rig.watcher():
        await rig.until_objects_committed(offset + 1)
    copy = await tenant.kube.get_object(SECRET, tenant.namespace, "copy")
    written = int(copy["metadata"]["resourceVersion"])
    assert sum([await version_of(tenant, row.name) < written for row in many]) < 30


async def version_of(tenant: Tenant, name: str) -> int:
    """The API server gives all objects' changes numbers in one order."""
    return int((await tenant.get(name))["metadata"]["resourceVersion"])


async def until_there(tenant: Tenant, name: str) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                await tenant.get(name)
            except NotFound:
                await asyncio.sleep(0.02)
            else:
                return


async def test_watcher_when_it_ended_with_rows_unapplied_then_the_next_one_applies_them(
    rig: Rig, tenant: Tenant
) -> None:
    owner = await tenant.create("prod")
    async with rig.watcher():
        await applied(rig, child(rig, owner))
    offset = rig.objects.write(child(rig, owner, "api-prod"))
    async with rig.watcher():
        await rig.until_objects_committed(offset + 1)
    await tenant.get("api-prod")


async def test_topic_when_an_installation_has_none_then_statuses_are_written_and_objects_once_it_is_there(
    rig: Rig, tenant: Tenant, kafka_bootstrap: str, open_objects: Callable[[str], Any]
) -> None:
    web = await tenant.create("web")
    rig.topics = replace(rig.topics, objects=f"objects.{uuid.uuid4().hex[:8]}")
    async with rig.watcher():
        rig.rows.write(compiled(rig, web, SYNCED))
        await tenant.until_status("web", SYNCED)
        admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
        made = admin.create_topics([NewTopic(rig.topics.objects, 1, 1)])[rig.topics.objects]
        await asyncio.to_thread(made.result, 10)
        rig.objects.close()
        rig.objects = open_objects(rig.topics.objects)
        await applied(rig, child(rig, web))
    assert (await tenant.get("web-prod"))["spec"]["source"]["path"] == "overlays/prod"


# What the applier takes for granted of an API server


async def test_apply_when_the_object_is_gone_then_it_conflicts_and_makes_none(tenant: Tenant, kube: KubeClient) -> None:
    former = (await tenant.create("web-prod"))["metadata"]
    await tenant.delete("web-prod")
    gone = manifest_of(tenant, uid=former["uid"], resourceVersion=former["resourceVersion"])
    with pytest.raises(Conflict):
        await kube.apply_object(GITOPS_DEPLOYMENT, gone, field_manager=WATCHER_FIELD_MANAGER)
    with pytest.raises(NotFound):
        await tenant.get("web-prod")


async def test_apply_when_another_object_has_the_name_then_it_conflicts(tenant: Tenant, kube: KubeClient) -> None:
    former = (await tenant.create("web-prod"))["metadata"]
    await tenant.delete("web-prod")
    before = await tenant.create("web-prod")
    bound = manifest_of(tenant, uid=former["uid"], resourceVersion=former["resourceVersion"])
    with pytest.raises(Conflict):
        await kube.apply_object(GITOPS_DEPLOYMENT, bound, field_manager=WATCHER_FIELD_MANAGER)
    assert (await tenant.get("web-prod"))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_apply_without_force_when_the_object_says_something_else_then_it_conflicts(
    tenant: Tenant, kube: KubeClient
) -> None:
    before = await tenant.create("web-prod", path="theirs")
    with pytest.raises(Conflict):
        await kube.apply_object(
            GITOPS_DEPLOYMENT, manifest_of(tenant), field_manager=WATCHER_FIELD_MANAGER, force=False
        )
    assert (await tenant.get("web-prod"))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def manifest_of(tenant: Tenant, **meta: str) -> Manifest:
    metadata = {"name": "web-prod", "namespace": tenant.namespace} | meta
    return {
        "apiVersion": GITOPS_DEPLOYMENT.api_version,
        "kind": GITOPS_DEPLOYMENT.kind,
        "metadata": metadata,
        "spec": SPEC,
    }
