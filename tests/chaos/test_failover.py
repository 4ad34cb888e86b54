"""A planner, the leading watcher, an agent hangs or is cut off: another does its work, and only that one.

Those that are killed, and so do not come back with what they knew, are in the random runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from chaos.sync_starts import SyncStarts
from devstack.harness.failures import FAILURES, KILLED, at_work, inflict
from devstack.harness.hosted import HostedStack
from devstack.harness.owners import await_shares
from services.common.kubernetes import APPLICATION, Changed, KubeClient, Manifest, reflect
from tests.e2e.api import Api
from tests.e2e.tenant import Tenant, application_name, path

RESUMED_SECONDS = 60
"""Of a busy machine; ``python -m bench.failover`` measures."""
FAILS_FOR_SECONDS = float(os.environ.get("FAILS_FOR_SECONDS", "0"))
"""At least; others have done its work by then in any case. For one minute: ``make failover``."""


async def until_synced(tenant: Tenant, *names: str) -> None:
    for name in names:
        await tenant.deployments.until(
            f"{name} is Synced",
            lambda _, name=name: tenant.status(name).get("sync", {}).get("status") == "Synced",
            RESUMED_SECONDS,
        )


class Written:
    """Every spec that the tenant's Applications had, and the starts of its runs, as they changed."""

    def __init__(self) -> None:
        self.specs: dict[str, list[tuple[str, int, str]]] = {}
        self.starts = SyncStarts()

    def note(self, application: Manifest) -> None:
        meta = application["metadata"]
        spec = meta["uid"], meta["generation"], application["spec"]["source"]["path"]
        seen = self.specs.setdefault(meta["name"], [])
        if spec not in seen:
            seen.append(spec)
        self.starts.note(application)

    def paths(self, created: Manifest) -> list[str]:
        """Since the recording began, in their order; one that comes twice was written by two."""
        paths = [path for _, _, path in self.specs[application_name(created)]]
        return [path for number, path in enumerate(paths) if number == 0 or paths[number - 1] != path]

    def uids(self, created: Manifest) -> set[str]:
        return {uid for uid, _, _ in self.specs[application_name(created)]}


@asynccontextmanager
async def recorded(kube: KubeClient, namespace: str) -> AsyncIterator[Written]:
    """What is written to the Applications of an engine namespace while the block runs."""
    written = Written()

    async def follow() -> None:
        async for event in reflect(kube, APPLICATION, namespace):
            if isinstance(event, Changed):
                written.note(event.object)

    following = asyncio.create_task(follow())
    try:
        yield written
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


@pytest.mark.parametrize(("service", "failure"), [each for each in FAILURES if KILLED not in each])
async def test_process_at_work_when_it_fails_then_another_goes_on_and_the_first_changes_nothing_when_it_is_back(
    stack: HostedStack, tenant: Tenant, api: Api, service: str, failure: str
) -> None:
    await asyncio.to_thread(await_shares, stack, service)
    kept, manual = await tenant.create("kept"), await tenant.create("manual", type="manual")
    application = await tenant.application_of(kept)
    await until_synced(tenant, "kept")
    await tenant.application_of(manual)
    engine = application["metadata"]["namespace"]
    victim = await asyncio.to_thread(at_work, stack, service, tenant.namespace, engine)
    async with recorded(tenant.kube, engine) as written:
        undo, failed_at = await asyncio.to_thread(inflict, stack, victim, failure), time.monotonic()
        try:
            new = await tenant.create("new")
            await tenant.patch("kept", path("elsewhere"))
            run = await api.sync_run("meanwhile", deployment="manual")
            await tenant.until_path(new, "apps/new")
            await tenant.until_path(kept, "elsewhere")
            await api.until_phase("meanwhile", "Succeeded", RESUMED_SECONDS)
            await until_synced(tenant, "kept", "new", "manual")
            assert await asyncio.to_thread(at_work, stack, service, tenant.namespace, engine) != victim
            await asyncio.sleep(failed_at + FAILS_FOR_SECONDS - time.monotonic())
        finally:
            await asyncio.to_thread(undo)
        await tenant.patch("kept", path("back"))
        await tenant.until_path(kept, "back")
        await tenant.until_path(await tenant.create("last"), "apps/last")
        await until_synced(tenant, "kept", "last")
    assert written.paths(kept) == ["elsewhere", "back"]
    assert (len(written.uids(kept)), len(written.uids(new))) == (1, 1)
    assert written.starts.runs == {run["metadata"]["uid"]}
    assert written.starts.count(run["metadata"]["uid"]) == 1
