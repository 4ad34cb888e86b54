"""The way down, on a real API server and a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

from devstack.harness.hosted import HostedStack
from services.common.messages import ResourceChanged, ResourceGone, ResyncCompleted
from services.common.telemetry import TRACEPARENT, trace_id
from tests.component.watcher.conftest import PARTITIONS
from tests.component.watcher.rig import USER, Rig, Sent, Tenant


def about(sent: list[Sent], namespace: str, name: str) -> list[Sent]:
    """Commands about one resource."""
    return [item for item in sent if item.command.namespace == namespace and item.event.name == name]


def changed(sent: list[Sent], namespace: str, name: str, **expected: Any) -> list[Sent]:
    """Commands that say the resource is like this."""
    return [
        item
        for item in about(sent, namespace, name)
        if isinstance(item.event, ResourceChanged)
        and all(getattr(item.event, key) == value for key, value in expected.items())
    ]


def gone(sent: list[Sent], namespace: str, name: str) -> list[Sent]:
    return [item for item in about(sent, namespace, name) if isinstance(item.event, ResourceGone)]


def resyncs(sent: list[Sent], kind: str = "GitOpsDeployment") -> list[Sent]:
    return [item for item in sent if isinstance(item.event, ResyncCompleted) and item.event.kind == kind]


async def test_resources_when_there_before_and_after_the_start_then_each_becomes_a_command_of_its_tenant(
    rig: Rig, tenant: Tenant
) -> None:
    before = await tenant.create("before")
    async with rig.watcher():
        after = await tenant.create("after")
        sent = await rig.commands.until(
            "both were sent",
            lambda sent: [changed(sent, tenant.namespace, name) for name in ("before", "after")],
        )
        await rig.commands.until("after was sent", lambda sent: changed(sent, tenant.namespace, "after"))
    sent = [changed(rig.commands.sent, tenant.namespace, name)[0] for name in ("before", "after")]
    assert [item.event.uid for item in sent] == [before["metadata"]["uid"], after["metadata"]["uid"]]
    assert {item.key for item in sent} == {f"{rig.settings.workspace}/{tenant.namespace}".encode()}
    assert len({item.partition for item in sent}) == 1
    assert all(trace_id(item.headers[TRACEPARENT].decode()) for item in sent)
    assert {item.command.source for item in sent} == {rig.settings.workspace}
    assert {item.event.actor for item in sent} == {USER}


async def test_list_when_complete_then_every_partition_is_told_after_everything_listed(
    rig: Rig, tenant: Tenant
) -> None:
    for number in range(5):
        await tenant.create(f"web-{number}")
    async with rig.watcher():
        await rig.commands.until("every partition has its marker", lambda sent: len(resyncs(sent)) == PARTITIONS)
    markers = resyncs(rig.commands.sent)
    assert sorted(item.partition for item in markers) == list(range(PARTITIONS))
    listed = [item for item in rig.commands.sent if item.command.namespace == tenant.namespace]
    assert {item.event.epoch for item in listed} == {item.event.epoch for item in markers}
    for item in listed:
        (marker,) = (mark for mark in markers if mark.partition == item.partition)
        assert rig.commands.sent.index(item) < rig.commands.sent.index(marker)


async def test_status_when_only_that_changes_then_no_command_is_sent(rig: Rig, tenant: Tenant) -> None:
    async with rig.watcher():
        await tenant.create("web")
        await rig.commands.until("creation was sent", lambda sent: changed(sent, tenant.namespace, "web"))
        await tenant.patch("web", {"status": {"health": {"status": "Healthy"}}}, subresource="status")
        await tenant.patch("web", {"metadata": {"labels": {"a": "b"}}})
        await tenant.patch("web", {"spec": {"source": {"path": "other"}}})
        await rig.commands.until("the spec was sent", lambda sent: changed(sent, tenant.namespace, "web", generation=2))
    assert [item.event.generation for item in about(rig.commands.sent, tenant.namespace, "web")] == [1, 2]


async def test_resource_when_deleted_then_first_its_waiting_and_then_its_end_is_sent(rig: Rig, tenant: Tenant) -> None:
    async with rig.watcher():
        created = await tenant.create("web", finalizers=("example.com/wait",))
        await rig.commands.until("creation was sent", lambda sent: changed(sent, tenant.namespace, "web"))
        await tenant.delete("web")
        await rig.commands.until(
            "the wait was sent",
            lambda sent: changed(sent, tenant.namespace, "web", deleting=True, finalizers=("example.com/wait",)),
        )
        await tenant.patch("web", {"metadata": {"finalizers": None}})
        (end,) = await rig.commands.until("the end was sent", lambda sent: gone(sent, tenant.namespace, "web"))
    assert end.event.uid == created["metadata"]["uid"]
    assert int(end.event.resource_version) > int(created["metadata"]["resourceVersion"])


async def test_watcher_when_restarted_then_it_sends_everything_again_under_a_newer_epoch(
    rig: Rig, tenant: Tenant
) -> None:
    await tenant.create("stays")
    await tenant.create("goes")
    async with rig.watcher():
        await rig.commands.until("first resync", lambda sent: len(resyncs(sent)) == PARTITIONS)
    await tenant.delete("goes")
    async with rig.watcher():
        await rig.commands.until("second resync", lambda sent: len(resyncs(sent)) == 2 * PARTITIONS)
    first, second = sorted({item.event.epoch for item in resyncs(rig.commands.sent)})
    assert len(changed(rig.commands.sent, tenant.namespace, "stays", epoch=first)) == 1
    assert len(changed(rig.commands.sent, tenant.namespace, "stays", epoch=second)) == 1
    assert len(changed(rig.commands.sent, tenant.namespace, "goes")) == 1
    assert not gone(rig.commands.sent, tenant.namespace, "goes"), "its absence from the second epoch says it"


async def test_spec_when_longer_than_allowed_then_the_planner_is_told_instead_of_it(rig: Rig, tenant: Tenant) -> None:
    async with rig.watcher(max_spec_bytes=1024):
        await tenant.create("web", path="p" * 1024)
        (sent,) = await rig.commands.until("it was sent", lambda sent: changed(sent, tenant.namespace, "web"))
    assert sent.event.spec == "{}"
    assert "too long" in sent.event.spec_omitted


async def test_api_server_when_it_was_away_then_changes_are_sent_again_without_a_restart(
    rig: Rig, tenant: Tenant, stack: HostedStack
) -> None:
    async with rig.watcher():
        await tenant.create("before")
        await rig.commands.until("before was sent", lambda sent: changed(sent, tenant.namespace, "before"))
        await asyncio.to_thread(stack.kill, "kube-apiserver")
        await asyncio.to_thread(stack.start, "kube-apiserver")
        await tenant.create("after")
        await rig.commands.until("after was sent", lambda sent: changed(sent, tenant.namespace, "after"))
