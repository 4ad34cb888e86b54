"""The database is lost: the runbook's commands build it from the logs, and nothing is deployed anew."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable

import pytest

from devstack.components.stack import ENGINE_NAMESPACES
from devstack.harness.hosted import HostedStack
from devstack.harness.operator import EDGES, Operator
from services.cli.rebuild.streamed_topics import PlacementTopic
from services.common.kubernetes import Manifest
from tests.drills.alert_metrics import until_measured
from tests.drills.claimed_shop import ClaimedShop
from tests.e2e.api import Api
from tests.e2e.moving import Mover
from tests.e2e.operators import typed
from tests.e2e.tenant import Tenant, application_name, find
from tests.e2e.test_split_tenants import ROOM, environments, namespace, small

__all__ = ["environments", "namespace", "small"]

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
STREAMED_SECONDS = 180
CLUSTER = "far"
POOL = "--ring early --min 0 --max 3 --spare 0 --capacity 10 --version 3.2.11"
REBUILD_AGE = "gitops_rebuild_age_seconds"
"""Alert: GitOpsRebuildOpen."""
LISTS = ("engines assignments", "engines pool list", "engine-clusters list")


def insert_unknown_application(operator: Operator, created: Manifest) -> None:
    """Have the engine make an Application like that of ``created``, for a resource that never was."""
    with operator.owner() as owner:
        names = {"uid": created["metadata"]["uid"], "unknown": UNKNOWN_UID, "name": application_name(created)}
        assert owner.execute(INSERT_UNKNOWN, names).rowcount == 1


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + STREAMED_SECONDS
    while not holds():
        assert time.monotonic() < deadline


def drain(operator: Operator, instance: str) -> None:
    """Have no new tenant placed on it; returns when that is streamed."""
    operator.run(f"gitopsctl engines drain {instance}")
    until(lambda: operator.topics().fleet()[instance].state == "draining")


def lay_down(operator: Operator) -> list[str]:
    """Assign a workspace, pin a tenant that is still to come, add a cluster and a pool; returns what is then listed.

    Once it is streamed.
    """
    operator.run("gitopsctl engines assign elsewhere --ring general")
    operator.run(f"gitopsctl engines pin to-come --workspace elsewhere --to {next(iter(operator.topics().fleet()))}")
    operator.run(f"gitopsctl engine-clusters add {CLUSTER} --region far", KAFKA_PASSWORD_AGENT_FAR="far")
    operator.run(f"gitopsctl engines pool set --cluster {CLUSTER} {POOL}")
    until(lambda: is_streamed(operator.topics().placement()))
    return listed(operator)


def is_streamed(told: PlacementTopic) -> bool:
    return all((told.assignments, told.pins, told.pools, CLUSTER in {each.id for each in told.clusters}))


def listed(operator: Operator) -> list[str]:
    """What operators are shown of what they have laid down."""
    return [operator.run(f"gitopsctl {each} -o json") for each in LISTS]


def take_back(operator: Operator) -> None:
    """What was laid down, but the cluster: its id would never be given out again."""
    operator.run("gitopsctl engines unpin to-come --workspace elsewhere")
    operator.run("gitopsctl engines unassign elsewhere")
    operator.run(f"gitopsctl engines pool remove --cluster {CLUSTER} --ring early")


def identity(tenant: Tenant, created: Manifest) -> tuple[str, str, int]:
    """Which Application it is, where, and how often it was changed."""
    meta = (find(tenant.applications.objects, application_name(created)) or {})["metadata"]
    return meta["namespace"], meta["uid"], meta["generation"]


async def parts_of(stack: HostedStack, tenant: Tenant) -> list[tuple[str, str, list[str]]]:
    """What operators are shown of where a tenant is: by each name its instance, and its environments there."""
    shown = json.loads(await typed(stack, "placement", tenant.namespace, "-o", "json"))
    return [(each["name"], each["instance"], each["environments"]) for each in shown]


@pytest.fixture
async def apart(stack: HostedStack, tenant: Tenant, small: str, environments: tuple[str, str]) -> Manifest:
    """A deployment of an environment for which there was no room on the tenant's own instance."""
    for number in range(ROOM - 1):
        await tenant.create(f"filler-{number}", destination={"environment": environments[0], "namespace": "web"})
        await tenant.until_status("Synced", f"filler-{number}", sync__status="Synced")
    created = await tenant.create("apart", destination={"environment": environments[1], "namespace": "web"})
    await tenant.until_status("Synced", "apart", sync__status="Synced")
    await typed(stack, "unpin", tenant.namespace)
    return created


async def test_database_when_lost_then_the_runbook_brings_it_back_and_only_what_nobody_asks_for_goes(
    operator: Operator,
    tenant: Tenant,
    api: Api,
    stack: HostedStack,
    apart: Manifest,
    claimed_shop: ClaimedShop,
) -> None:
    """The tenant is on the instance that it was moved to, and that would not be its own by now, and has a part."""
    await claimed_shop.begin()
    kept, manual = await tenant.create("kept"), await tenant.create("manual", type="manual")
    await tenant.until_status("Synced", "kept", sync__status="Synced")
    await api.sync_run("once", deployment="manual")
    ran = await api.until_phase("once", "Succeeded")
    await tenant.until_status("Synced", "manual", sync__status="Synced")
    mover = Mover(stack, tenant, tenant.applications)
    (there,) = mover.places(apart)
    (target,) = {*ENGINE_NAMESPACES} - {there}
    await typed(stack, "move", tenant.namespace, "--to", target)
    await mover.until_done()
    drained = (await tenant.application_of(kept))["metadata"]["namespace"]
    unknown: Manifest = {"metadata": {"uid": UNKNOWN_UID}}
    await asyncio.to_thread(insert_unknown_application, operator, kept)
    await tenant.application_of(unknown)
    laid_down = await asyncio.to_thread(lay_down, operator)
    await asyncio.to_thread(drain, operator, drained)
    before = {created["metadata"]["name"]: identity(tenant, created) for created in (kept, manual, apart)}
    parts = await parts_of(stack, tenant)
    assert parts == [(tenant.namespace, target, ["dev"]), (f"{tenant.namespace}@{there}", there, ["prod"])]
    loop, late = asyncio.get_running_loop(), list[Manifest]()

    def change_meanwhile(command: str) -> None:
        if command == "gitopsctl rebuild follow":
            late.append(asyncio.run_coroutine_threadsafe(tenant.create("late"), loop).result(30))
        if command == "gitopsctl rebuild sweep":
            assert find(tenant.applications.objects, application_name(unknown)) is not None
            telling = until_measured(stack, "planner", REBUILD_AGE, lambda seconds: seconds > 0)
            asyncio.run_coroutine_threadsafe(telling, loop).result()

    by_hand = {
        1: [operator.stop("planner")],
        2: [operator.lose_database],
        3: [],
        4: [operator.start("planner"), *operator.restart(*EDGES)],
    }
    try:
        await asyncio.to_thread(operator.follow_runbook, "lost-database.md", by_hand, change_meanwhile)
        # Until planners have seen that the rebuild has ended a pool says that it rests.
        await asyncio.to_thread(until, lambda: listed(operator) == laid_down)
        await until_measured(stack, "planner", REBUILD_AGE, lambda seconds: seconds == 0)
        assert await parts_of(stack, tenant) == parts
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
    assert {created["metadata"]["name"]: identity(tenant, created) for created in (kept, manual, apart)} == before
    assert await api.until_phase("once", "Succeeded") == ran
    engines = operator.told["gitopsctl rebuild follow"].splitlines()[2]
    assert re.search(r"[1-9]\d* rows unchanged, 0 differing", engines), engines
    await claimed_shop.require_unchanged()
