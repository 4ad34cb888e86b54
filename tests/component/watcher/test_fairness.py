"""A tenant that changes too much waits; the others do not. On a real API server and a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

from services.common.kubernetes import LEASE, NAMESPACE, KubeClient, connect
from services.common.messages import ResourceChanged
from services.watcher.watcher import Watcher
from tests.component.watcher.conftest import PARTITIONS
from tests.component.watcher.rig import Rig, Tenant, until
from tests.component.watcher.test_commands_sent import changed, resyncs
from tests.component.watcher.test_status_written import SYNCED, compiled

BURST = 5


async def another_tenant(kube: KubeClient, tenant: Tenant) -> Tenant:
    name = f"{tenant.namespace}-other"
    await kube.create_object(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, field_manager="tests"
    )
    return Tenant(kube, name)


async def test_tenant_when_it_creates_more_than_its_rate_limit_then_another_is_sent_at_once(
    rig: Rig, tenant: Tenant, kube: KubeClient
) -> None:
    quiet = await another_tenant(kube, tenant)
    async with rig.watcher(tenant_change_burst=BURST, tenant_changes_per_second=3.0):
        await asyncio.gather(*(tenant.create(f"web-{number}") for number in range(4 * BURST)))
        await quiet.create("web")
        await rig.commands.until("quiet was sent", lambda sent: changed(sent, quiet.namespace, "web"))
        busy = [item for item in rig.commands.sent if item.command.namespace == tenant.namespace]
        assert len(busy) < 4 * BURST, "all of the busy tenant went first"
        await rig.commands.until(
            "everything was sent in the end",
            lambda sent: (
                len({item.event.name for item in sent if item.command.namespace == tenant.namespace}) == 4 * BURST
            ),
        )
    (first,) = changed(rig.commands.sent, quiet.namespace, "web")
    assert first.event.held_back_ms == 0
    held = [
        item.event.held_back_ms
        for item in rig.commands.sent
        if item.command.namespace == tenant.namespace and isinstance(item.event, ResourceChanged)
    ]
    assert max(held) > 0
    assert held[0] == 0


async def test_statuses_when_one_tenant_has_many_then_anothers_single_one_is_not_last(
    rig: Rig, tenant: Tenant, kube: KubeClient
) -> None:
    quiet = await another_tenant(kube, tenant)
    many = [await tenant.create(f"web-{number}") for number in range(60)]
    single = await quiet.create("web")
    for manifest in [*many, single]:
        offset = rig.rows.write(compiled(rig, manifest, SYNCED))
    async with rig.watcher(status_writers=1):
        await rig.until_committed(offset + 1)
    versions = [
        int((await tenant.get(manifest["metadata"]["name"]))["metadata"]["resourceVersion"]) for manifest in many
    ]
    written = int((await quiet.get("web"))["metadata"]["resourceVersion"])
    assert sum(version < written for version in versions) < 30, "its turn came after everybody else's"


async def test_watchers_when_two_serve_a_workspace_then_one_follows_and_the_other_takes_over(
    rig: Rig, tenant: Tenant, kube: KubeClient, kubeconfig: Path
) -> None:
    settings = {"leader_election": True, "leader_election_namespace": tenant.namespace, "lease_seconds": 6}

    def roles(*watchers: Watcher) -> list[str]:
        return sorted(watcher.role() for watcher in watchers)

    async with rig.watcher(**settings) as first:
        await rig.commands.until("first list", lambda sent: len(resyncs(sent)) == PARTITIONS)
        async with rig.watcher(**settings) as second:
            assert roles(first, second) == ["", "standby"]
            assert second.role() == "standby"
            await tenant.create("once")
            await rig.commands.until("it was sent", lambda sent: changed(sent, tenant.namespace, "once"))
            await _cut_off(first)
            await until(lambda: second.role() == "")
            assert first.role() == "standby"
            await rig.commands.until("second list", lambda sent: len(resyncs(sent)) == 2 * PARTITIONS)
    assert len(changed(rig.commands.sent, tenant.namespace, "once")) == 2
    one, two = sorted({item.event.epoch for item in resyncs(rig.commands.sent)})
    assert one < two
    async with await connect(kubeconfig) as client:
        lease = await client.get_object(LEASE, tenant.namespace, f"gitops-watcher-{rig.settings.workspace}")
    assert lease["spec"]["holderIdentity"] == "", "whoever ended last gave it back"


async def _cut_off(watcher: Watcher) -> None:
    """Its lease's API server answers nothing any more."""

    class Nowhere:
        async def get_object(self, *_: object) -> None:
            await asyncio.Event().wait()

        async def patch_object(self, *_: object, **__: object) -> None:
            """Where the lease was read just before."""
            await asyncio.Event().wait()

    assert watcher.leadership.election is not None
    watcher.leadership.election.kube = Nowhere()  # type: ignore[assignment]
