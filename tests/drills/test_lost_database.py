"""The database is lost: the runbook's commands build it from the logs, and nothing is deployed anew."""

from __future__ import annotations

import asyncio
import re
import time

from devstack.harness.hosted import HostedStack
from devstack.harness.mirror import Mirror
from devstack.harness.operator import EDGES, Operator
from services.common.kubernetes import Manifest
from tests.e2e.api import Api
from tests.e2e.moving import Mover
from tests.e2e.tenant import Tenant, application_name, find

UNKNOWN_UID = "00000000-0000-4000-8000-00000000dead"
"""uid of a resource of which no log tells."""

INSERT_UNKNOWN = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, owner_kind,
                              engine_cluster)
SELECT engine_instance_id, kind, namespace, replace(name, %(uid)s, %(unknown)s), workspace, tenant_namespace, lane,
       wave, desired, replace(manifest, %(uid)s, %(unknown)s), digest, trace_id, seen_at, updated_at, owner_kind,
       engine_cluster
  FROM engine_resources WHERE name = %(name)s AND kind = 'Application'
"""
STREAMED_SECONDS = 90


def insert_unknown_application(operator: Operator, created: Manifest) -> None:
    """Have the engine make an Application like that of ``created``, for a resource that never was."""
    with operator.owner() as owner:
        names = {"uid": created["metadata"]["uid"], "unknown": UNKNOWN_UID, "name": application_name(created)}
        assert owner.execute(INSERT_UNKNOWN, names).rowcount == 1


def drain(operator: Operator, instance: str) -> None:
    """Have no new tenant placed on it; returns when that is streamed."""
    operator.run(f"gitopsctl engines drain {instance}")
    deadline = time.monotonic() + STREAMED_SECONDS
    while operator.topics().fleet()[instance].state != "draining":
        assert time.monotonic() < deadline


def assign(operator: Operator) -> str:
    """A workspace, and a tenant of it that is still to come; returns what is listed once that is streamed."""
    operator.run("gitopsctl engines assign elsewhere --ring general")
    operator.run(f"gitopsctl engines pin to-come --workspace elsewhere --to {next(iter(operator.topics().fleet()))}")
    deadline = time.monotonic() + STREAMED_SECONDS
    while not (operator.topics().placement().assignments and operator.topics().placement().pins):
        assert time.monotonic() < deadline
    return operator.run("gitopsctl engines assignments -o json")


def take_back(operator: Operator) -> None:
    """What was assigned."""
    operator.run("gitopsctl engines unpin to-come --workspace elsewhere")
    operator.run("gitopsctl engines unassign elsewhere")


def identity(tenant: Tenant, created: Manifest) -> tuple[str, str, int]:
    """Which Application it is, where, and how often it was changed."""
    meta = (find(tenant.applications.objects, application_name(created)) or {})["metadata"]
    return meta["namespace"], meta["uid"], meta["generation"]


async def test_database_when_lost_then_the_runbook_brings_it_back_and_only_what_nobody_asks_for_goes(
    operator: Operator, tenant: Tenant, api: Api, stack: HostedStack, applications: Mirror
) -> None:
    """The tenant is on the instance that it was moved to, and that would not be its own by now."""
    kept, manual = await tenant.create("kept"), await tenant.create("manual", type="manual")
    await tenant.until_status("Synced", "kept", sync__status="Synced")
    await api.sync_run("once", deployment="manual")
    ran = await api.until_phase("once", "Succeeded")
    await tenant.until_status("Synced", "manual", sync__status="Synced")
    mover = Mover(stack, tenant, applications)
    await mover.order(kept)
    await mover.until_done()
    drained = (await tenant.application_of(kept))["metadata"]["namespace"]
    unknown: Manifest = {"metadata": {"uid": UNKNOWN_UID}}
    await asyncio.to_thread(insert_unknown_application, operator, kept)
    await tenant.application_of(unknown)
    assigned = await asyncio.to_thread(assign, operator)
    await asyncio.to_thread(drain, operator, drained)
    before = {created["metadata"]["name"]: identity(tenant, created) for created in (kept, manual)}
    loop, late = asyncio.get_running_loop(), list[Manifest]()

    def change_meanwhile(command: str) -> None:
        if command == "gitopsctl rebuild follow":
            late.append(asyncio.run_coroutine_threadsafe(tenant.create("late"), loop).result(30))
        if command == "gitopsctl rebuild sweep":
            assert find(tenant.applications.objects, application_name(unknown)) is not None

    by_hand = {
        1: [operator.stop("planner")],
        2: [operator.lose_database],
        3: [],
        4: [operator.start("planner"), *operator.restart(*EDGES)],
    }
    try:
        await asyncio.to_thread(operator.follow_runbook, "lost-database.md", by_hand, change_meanwhile)
        assert await asyncio.to_thread(operator.run, "gitopsctl engines assignments -o json") == assigned
        await asyncio.to_thread(take_back, operator)
    finally:
        await asyncio.to_thread(operator.run, f"gitopsctl engines undrain {drained}")

    assert (
        f"Application {before['kept'][0]}/{application_name(unknown)}"
        in operator.told["gitopsctl rebuild sweep --dry-run"]
    )
    await tenant.until_application_gone(unknown)
    await tenant.until_status("Synced", "late", sync__status="Synced")
    assert identity(tenant, late[0])[0] == before["kept"][0], "the tenant is where it was"
    assert {created["metadata"]["name"]: identity(tenant, created) for created in (kept, manual)} == before
    assert await api.until_phase("once", "Succeeded") == ran
    engines = operator.told["gitopsctl rebuild follow"].splitlines()[2]
    assert re.search(r"[1-9]\d* rows unchanged, 0 differing", engines), engines
