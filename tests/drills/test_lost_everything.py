"""Kafka and the database are lost, and no backup is there: the clusters that live know what is asked for, and where."""

from __future__ import annotations

import asyncio

import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS, Operator
from tests.drills.test_lost_database import identity
from tests.drills.test_restored_database import SECOND
from tests.e2e.api import Api
from tests.e2e.operators import sole_instance
from tests.e2e.tenant import Tenant, path


@pytest.mark.long
async def test_kafka_and_database_when_lost_without_a_backup_then_tenants_stay_where_their_applications_are(
    stack: HostedStack, operator: Operator, tenant: Tenant, other_tenant: Tenant, api: Api
) -> None:
    created = {name: await tenant.create(name) for name in ("kept", "changed")}
    created["manual"] = await tenant.create("manual", type="manual")
    with sole_instance(stack, SECOND):
        elsewhere = await other_tenant.create()
        await other_tenant.application_of(elsewhere)
    await api.sync_run("refused", deployment="kept")
    await api.until_phase("refused", "Error")
    for run in ("older", "newest"):
        await api.sync_run(run, deployment="manual")
        await api.until_phase(run, "Succeeded")
    outcomes = {run: api.operation(run) for run in ("refused", "older", "newest")}
    for name in created:
        await tenant.until_status("Synced", name, sync__status="Synced")
    await other_tenant.until_status("Synced", sync__status="Synced")
    before = {name: identity(tenant, each)[:2] for name, each in created.items()}
    before_elsewhere = identity(other_tenant, elsewhere)[:2]
    loop = asyncio.get_running_loop()

    def change_meanwhile() -> None:
        changes = (
            tenant.patch("changed", path("since")),
            tenant.create("late"),
            api.sync_run("meanwhile", deployment="manual"),
        )
        for change in changes:
            asyncio.run_coroutine_threadsafe(change, loop).result(30)

    by_hand = {
        1: [operator.stop(*AGENTS, "planner", "watcher", "connect")],
        2: [
            operator.stop("kafka"),
            operator.lose_disk("kafka"),
            operator.start("kafka"),
            operator.lose_database,
            change_meanwhile,
        ],
        3: [operator.start("connect")],
        4: [operator.start("planner"), operator.start("watcher")],
        5: [operator.start(*AGENTS)],
    }
    await asyncio.to_thread(operator.follow_runbook, "lost-everything.md", by_hand)
    await tenant.until_path(created["changed"], "since")
    await tenant.until_status("Synced", "late", sync__status="Synced")
    assert {name: identity(tenant, each)[:2] for name, each in created.items()} == before
    assert identity(other_tenant, elsewhere)[:2] == before_elsewhere, "no other instance was chosen"
    await api.sync_run("since", deployment="manual")
    for run in ("meanwhile", "since"):
        ran = await api.until_phase(run, "Succeeded")
        assert ran["startedAt"] > outcomes["newest"]["finishedAt"], "it ran now"
    assert {run: api.operation(run) for run in outcomes} == outcomes, "none ran again, and each keeps its outcome"
