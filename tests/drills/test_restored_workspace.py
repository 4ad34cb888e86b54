"""The API server is restored from a backup: what it lists is what there is, though its versions are older ones."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from tests.e2e.tenant import Tenant, application_name, find, path

CONVERGED_SECONDS = 60
WRITES_SINCE = 200
"""Between backup and restore: for long the versions of the restored API server are below those seen until then."""


class Backup:
    """The data of etcd as it was once. Nobody else is restarted, but the API server at a restore."""

    def __init__(self, stack: HostedStack, copy: Path) -> None:
        self._stack, self._copy, self._data = stack, copy, stack.state.root / "etcd"

    async def save(self) -> None:
        """Keep what is there now."""
        await self._without("etcd", do=lambda: shutil.copytree(self._data, self._copy))

    async def restore(self) -> None:
        """Put back what was saved."""
        await self._without("kube-apiserver", "etcd", do=self._replace)

    def _replace(self) -> None:
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)

    async def _without(self, *processes: str, do: Callable[[], object]) -> None:
        for name in processes:
            await asyncio.to_thread(self._stack.kill, name)
        await asyncio.to_thread(do)
        for name in reversed(processes):
            await asyncio.to_thread(self._stack.start, name)


@pytest.fixture
def backup(stack: HostedStack, tmp_path: Path) -> Backup:
    """Nothing is saved yet."""
    return Backup(stack, tmp_path / "etcd")


async def test_api_server_when_restored_from_a_backup_then_everything_is_as_that_says_and_new_changes_take_effect(
    stack: HostedStack, operator: Operator, tenant: Tenant, backup: Backup
) -> None:
    before = stack.pids()
    kept, changed, deleted = [await tenant.create(name) for name in ("kept", "changed", "deleted")]
    for name in ("kept", "changed", "deleted"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    await backup.save()

    await tenant.patch("changed", path("elsewhere"))
    await tenant.delete("deleted")
    lost = await tenant.create("lost")
    await tenant.until_path(changed, "elsewhere")
    await tenant.until_application_gone(deleted)
    await tenant.until_status("Synced", "lost", sync__status="Synced")
    for number in range(WRITES_SINCE):
        await tenant.patch("kept", {"metadata": {"annotations": {"edited": str(number)}}})
    loop = asyncio.get_running_loop()

    def restore() -> None:
        asyncio.run_coroutine_threadsafe(backup.restore(), loop).result(CONVERGED_SECONDS)

    await asyncio.to_thread(operator.follow_runbook, "restored-workspace.md", {1: [restore]})
    assert operator.told["gitopsctl resync status"] == "no resync is refused\n"

    await tenant.deployments.until(
        "the list shows what was saved",
        lambda objects: (
            {name for namespace, name in objects if namespace == tenant.namespace} == {"kept", "changed", "deleted"}
        ),
        CONVERGED_SECONDS,
    )
    await tenant.until_path(changed, "apps/changed")
    await tenant.until_application_gone(lost, CONVERGED_SECONDS)
    assert find(tenant.applications.objects, application_name(kept)) is not None
    await tenant.patch("kept", path("new"))
    await tenant.until_path(kept, "new")
    await tenant.until_path(await tenant.create("new"), "apps/new")
    await tenant.until_path(deleted, "apps/deleted")
    await tenant.patch("deleted", path("again"))
    await tenant.until_path(deleted, "again")
    for name in ("kept", "changed", "deleted", "new"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    ours = ("watcher", "planner", "agent-1", "agent-2")
    assert {name: stack.pids()[name] for name in ours} == {name: before[name] for name in ours}
