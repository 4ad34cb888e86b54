"""The Kafka cluster is lost, with every topic, offset and principal: database and clusters know all of it."""

from __future__ import annotations

import asyncio

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import AGENTS, Operator
from services.common.kafka import COMMANDS
from tests.drills.alert_metrics import measured
from tests.drills.test_lost_database import identity
from tests.e2e.tenant import Tenant, application_name, find, path


async def test_kafka_when_lost_then_a_new_cluster_is_filled_and_changes_of_the_meantime_take_effect(
    stack: HostedStack, operator: Operator, tenant: Tenant
) -> None:
    resources = {name: await tenant.create(name) for name in ("kept", "changed", "deleted")}
    for name in resources:
        await tenant.until_status("Synced", name, sync__status="Synced")
    before = identity(tenant, resources["kept"])
    loop = asyncio.get_running_loop()

    def change_meanwhile(command: str) -> None:
        if command != "gitopsctl topics apply":
            return
        for change in (
            tenant.patch("changed", path("since")),
            tenant.delete("deleted"),
            tenant.create("created"),
        ):
            asyncio.run_coroutine_threadsafe(change, loop).result(30)

    by_hand = {
        1: [operator.stop(*AGENTS, "planner", "watcher", "connect")],
        2: [operator.stop("kafka"), operator.lose_disk("kafka"), operator.start("kafka")],
        3: [operator.start("connect")],
        4: [operator.start("planner"), operator.start("watcher")],
        5: [operator.start(*AGENTS)],
    }
    await asyncio.to_thread(operator.follow_runbook, "lost-kafka.md", by_hand, change_meanwhile)
    assert measured(stack, "planner", "gitops_logs_made_anew_total", topic=COMMANDS) > 0, "GitOpsLogMadeAnew"

    await tenant.until_status("Synced", "created", sync__status="Synced")
    await tenant.until_application_gone(resources["deleted"])
    changed = application_name(resources["changed"])
    await tenant.applications.until(
        "the change", lambda objects: (find(objects, changed) or {})["spec"]["source"]["path"] == "since"
    )
    assert identity(tenant, resources["kept"]) == before
