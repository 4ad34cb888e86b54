"""The way up, on a real broker and a real API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from prometheus_client import REGISTRY

from devstack.harness.hosted import HostedStack
from services.common.kubernetes import Manifest, NotFound, Rejected
from services.common.messages import WorkspaceResource
from services.kinds.shared.api_group import FINALIZER
from tests.component.watcher.rig import DEADLINE_SECONDS, Rig, Tenant, until

SYNCED = {"sync": {"status": "Synced"}}
HEALTHY = {"health": {"status": "Healthy"}}
OTHER = "example.com/other"


def compiled(rig: Rig, manifest: Manifest, status: Manifest, **columns: Any) -> WorkspaceResource:
    """The row that the planner would compile for this resource."""
    meta = manifest["metadata"]
    values: dict[str, Any] = {
        "workspace": rig.settings.workspace,
        "namespace": meta["namespace"],
        "kind": "GitOpsDeployment",
        "name": meta["name"],
        "uid": meta["uid"],
        "generation": 1,
        "status": orjson.dumps(status).decode(),
        "release_finalizer": False,
        "digest": "d",
        "trace_id": "",
        "seen_at": datetime.now(UTC),
        "deleted": False,
    }
    return WorkspaceResource(**values | columns)


def statuses_measured() -> float:
    labels = {"stage": "status", "kind": "GitOpsDeployment"}
    return REGISTRY.get_sample_value("gitops_end_to_end_seconds_count", labels) or 0


def failed_writes() -> float:
    labels = {"service": "watcher", "type": "retry", "operation": "status"}
    return REGISTRY.get_sample_value("gitops_errors_total", labels) or 0


async def test_row_when_compiled_then_its_status_replaces_the_resources_and_its_offset_is_committed(
    rig: Rig, tenant: Tenant
) -> None:
    web = await tenant.create("web")
    await tenant.patch("web", {"status": HEALTHY}, subresource="status")
    measured = statuses_measured()
    async with rig.watcher():
        offset = rig.rows.write(compiled(rig, web, SYNCED))
        await tenant.until_status("web", SYNCED)
        await rig.until_committed(offset + 1)
    assert statuses_measured() == measured + 1


async def test_rows_when_many_of_one_resource_come_then_the_last_one_stays(rig: Rig, tenant: Tenant) -> None:
    web = await tenant.create("web")
    for number in range(30):
        offset = rig.rows.write(compiled(rig, web, {"sync": {"status": str(number)}}))
    async with rig.watcher():
        await rig.until_committed(offset + 1)
    assert (await tenant.get("web"))["status"] == {"sync": {"status": "29"}}


async def test_rows_when_more_than_may_wait_then_consuming_pauses_and_all_are_written(rig: Rig, tenant: Tenant) -> None:
    resources = [await tenant.create(f"web-{number}") for number in range(30)]
    async with rig.watcher(statuses_waiting=1, status_writers=1):
        for resource in resources:
            offset = rig.rows.write(compiled(rig, resource, SYNCED))
        await rig.until_committed(offset + 1)
    for resource in resources:
        assert (await tenant.get(resource["metadata"]["name"]))["status"] == SYNCED


async def test_row_when_the_resource_was_created_anew_then_the_new_one_is_left_alone(rig: Rig, tenant: Tenant) -> None:
    old = await tenant.create("web")
    await tenant.delete("web")
    new = await tenant.create("web")
    async with rig.watcher():
        offset = rig.rows.write(compiled(rig, old, SYNCED, release_finalizer=True))
        offset = rig.rows.write(compiled(rig, old, SYNCED))
        await rig.until_committed(offset + 1)
    assert (await tenant.get("web"))["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]


@pytest.mark.parametrize("release", [False, True])
async def test_row_when_the_resource_is_gone_then_it_is_done_with(rig: Rig, tenant: Tenant, release: bool) -> None:
    web = await tenant.create("web")
    await tenant.delete("web")
    async with rig.watcher():
        offset = rig.rows.write(compiled(rig, web, SYNCED, release_finalizer=release))
        await rig.until_committed(offset + 1)


async def test_finalizer_when_released_then_the_waiting_resource_goes(rig: Rig, tenant: Tenant) -> None:
    web = await tenant.create("web", finalizers=(FINALIZER,))
    await tenant.delete("web")
    async with rig.watcher():
        offset = rig.rows.write(compiled(rig, web, SYNCED, release_finalizer=True))
        await rig.until_committed(offset + 1)
    with pytest.raises(NotFound):
        await tenant.get("web")


async def test_finalizer_when_released_then_those_of_others_stay_and_the_status_is_written(
    rig: Rig, tenant: Tenant
) -> None:
    web = await tenant.create("web", finalizers=(OTHER, FINALIZER))
    await tenant.delete("web")
    async with rig.watcher():
        rig.rows.write(compiled(rig, web, SYNCED, release_finalizer=True))
        await tenant.until_status("web", SYNCED)
    assert (await tenant.get("web"))["metadata"]["finalizers"] == [OTHER]


async def test_finalizer_when_it_was_released_then_nobody_can_put_it_back(rig: Rig, tenant: Tenant) -> None:
    """Somebody else's keeps the resource, so that there is something to put it on."""
    web = await tenant.create("web", finalizers=(OTHER, FINALIZER))
    await tenant.delete("web")
    async with rig.watcher():
        rig.rows.write(compiled(rig, web, SYNCED, release_finalizer=True))
        await tenant.until_status("web", SYNCED)
        with pytest.raises(Rejected, match="no new finalizers can be added"):
            await tenant.patch("web", {"metadata": {"finalizers": [OTHER, FINALIZER]}})
        await tenant.patch("web", {"metadata": {"finalizers": []}})
    with pytest.raises(NotFound):
        await tenant.get("web")


async def test_rows_when_not_for_us_then_they_change_nothing_and_are_committed(rig: Rig, tenant: Tenant) -> None:
    web = await tenant.create("web")
    row = compiled(rig, web, SYNCED)
    async with rig.watcher():
        rig.rows.write(replace(row, workspace="another"))
        rig.rows.write(replace(row, deleted=True))
        offset = rig.rows.append(b"key", None)
        await rig.until_committed(offset + 1)
    assert "status" not in await tenant.get("web")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(b"not avro", "wire format", id="no-header"),
        pytest.param(b"\x00\x7f\xff\xff\xffabc", "not in the registry", id="unknown-schema"),
    ],
)
async def test_message_when_unreadable_then_it_is_a_dead_letter_and_the_next_row_is_written(
    rig: Rig, tenant: Tenant, value: bytes, reason: str
) -> None:
    web = await tenant.create("web")
    async with rig.watcher():
        buried = rig.rows.append(b"key", value)
        offset = rig.rows.write(compiled(rig, web, SYNCED))
        await tenant.until_status("web", SYNCED)
        await rig.until_committed(offset + 1)
    (letter,) = await asyncio.to_thread(rig.dead_letters)
    assert (letter.offset, letter.key, letter.value) == (buried, b"key", value)
    assert reason in letter.error


async def test_kind_when_unknown_then_its_row_is_a_dead_letter(rig: Rig, tenant: Tenant) -> None:
    web = await tenant.create("web")
    async with rig.watcher():
        offset = rig.rows.write(compiled(rig, web, SYNCED, kind="OfTheFuture"))
        await rig.until_committed(offset + 1)
    (letter,) = await asyncio.to_thread(rig.dead_letters)
    assert "OfTheFuture" in letter.error


async def test_status_when_the_crd_refuses_it_then_its_row_is_a_dead_letter(rig: Rig, tenant: Tenant) -> None:
    web, other = await tenant.create("web"), await tenant.create("other")
    async with rig.watcher():
        refused = rig.rows.write(compiled(rig, web, {"sync": "not an object"}))
        offset = rig.rows.write(compiled(rig, other, SYNCED))
        await rig.until_committed(offset + 1)
    assert "status" not in await tenant.get("web")
    assert (await tenant.get("other"))["status"] == SYNCED
    (letter,) = await asyncio.to_thread(rig.dead_letters)
    assert letter.offset == refused
    assert "status.sync" in letter.error


async def test_api_server_when_away_then_nothing_is_committed_and_the_status_is_written_when_it_is_back(
    rig: Rig, tenant: Tenant, stack: HostedStack
) -> None:
    web, failed = await tenant.create("web"), failed_writes()
    async with rig.watcher():
        await asyncio.to_thread(stack.kill, "kube-apiserver")
        offset = rig.rows.write(compiled(rig, web, SYNCED))
        await until(lambda: failed_writes() > failed)
        assert await asyncio.to_thread(rig.committed) <= offset
        await asyncio.to_thread(stack.start, "kube-apiserver")
        await tenant.until_status("web", SYNCED)
        await rig.until_committed(offset + 1)


async def test_watcher_when_it_ended_with_rows_unwritten_then_the_next_one_writes_them(
    rig: Rig, tenant: Tenant
) -> None:
    web = await tenant.create("web")
    async with rig.watcher():
        offset = rig.rows.write(compiled(rig, web, HEALTHY))
        await rig.until_committed(offset + 1)
    rig.rows.write(compiled(rig, web, SYNCED))
    async with asyncio.timeout(DEADLINE_SECONDS), rig.watcher():
        await tenant.until_status("web", SYNCED)
