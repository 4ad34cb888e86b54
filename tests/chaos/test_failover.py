"""A planner, the leading watcher, an agent is killed, hangs or is cut off: another does its work, and only that one."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from devstack.harness.failures import FAILURES, KILLED, at_work, inflict
from devstack.harness.hosted import HostedStack
from devstack.harness.owners import await_replaced, await_shares
from tests.chaos.written import commands_sent, is_in_order, recorded
from tests.e2e.api import Api
from tests.e2e.tenant import Tenant, path

RESUMED_SECONDS = 120
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


SEEN_ELSEWHERE = {KILLED, "kafka"}
"""By ``make test`` in ``test_random_changes.py`` and ``tests/e2e/test_chaos.py``."""


@pytest.mark.parametrize(
    ("service", "failure"),
    [pytest.param(*each, marks=pytest.mark.long if each[1] in SEEN_ELSEWHERE else ()) for each in FAILURES],
)
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
    log = stack.state.root / "kafka" / "data"
    async with recorded(tenant.kube, engine, tenant.namespace) as written:
        leader = (await asyncio.to_thread(commands_sent, log))[-1].sender
        await tenant.patch("kept", path("under-way"))
        await tenant.until_path(kept, "under-way")
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
            before = set(await asyncio.to_thread(commands_sent, log))
        finally:
            await asyncio.to_thread(undo)
        await tenant.patch("kept", path("back"))
        await tenant.until_path(kept, "back")
        await tenant.until_path(await tenant.create("last"), "apps/last")
        await until_synced(tenant, "kept", "last")
        await written.until_shown(kept, "back")
        await asyncio.to_thread(await_replaced, stack, service, victim)
        after = set(await asyncio.to_thread(commands_sent, log)) - before
    assert is_in_order(written.paths(kept), ["apps/kept", "under-way", "elsewhere", "back"])
    assert is_in_order(written.shown(kept), ["apps/kept", "under-way", "elsewhere", "back"])
    assert is_in_order(written.shown(run), ["Waiting", "Running", "Succeeded"])
    assert (len(written.uids(kept)), len(written.uids(new))) == (1, 1)
    assert written.starts.runs == {run["metadata"]["uid"]}
    assert written.starts.count(run["metadata"]["uid"]) == 1
    assert after, "commands since the process is back"
    assert service != "watcher" or leader not in {each.sender for each in after}
