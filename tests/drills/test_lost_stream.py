"""The connector does not know how far it was: its slot is gone, or Connect's own topic. The database has every row."""

from __future__ import annotations

import asyncio
import math

import pytest
from confluent_kafka.admin import AdminClient

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from services.common.kubernetes import Manifest
from tests.drills.alert_metrics import until_measured
from tests.drills.test_lost_database import identity
from tests.e2e.api import Api
from tests.e2e.tenant import Tenant, application_name, path

OFFSETS = "gitops.connect.offsets"
LEAST = "ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'"
AS_CONFIGURED = "ALTER SYSTEM RESET max_slot_wal_keep_size"
RELOAD = "SELECT pg_reload_conf()"
FILL_SEGMENT = "SELECT pg_logical_emit_message(false, 'drill', 'anything'), pg_switch_wal()"
WAL_STATUS = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'gitops'"
MOST_SEGMENTS = 20
UNCONFIRMED, ALERTED = "gitops_stream_unconfirmed_bytes", 1_000_000_000
"""Alert: GitOpsStreamBehind."""
UNSEEN = "DELETE FROM engine_resources WHERE name = %s AND kind = 'Application'"


def reach_limit(operator: Operator) -> None:
    """Write so much that the slot, which nobody reads, is invalidated."""
    with operator.superuser("gitops") as superuser:
        superuser.execute(LEAST)
        superuser.execute(RELOAD)
        try:
            for _ in range(MOST_SEGMENTS):
                superuser.execute(FILL_SEGMENT)
                superuser.execute("CHECKPOINT")
                if superuser.execute(WAL_STATUS).fetchone() == ("lost",):
                    return
        finally:
            superuser.execute(AS_CONFIGURED)
            superuser.execute(RELOAD)
    raise AssertionError("the slot is still there")


def delete_offsets(stack: HostedStack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.environment["KAFKA_BOOTSTRAP_SERVERS"]})
    admin.delete_topics([OFFSETS])[OFFSETS].result(10)


def require_unknown(operator: Operator, unseen: Manifest, *wanted: Manifest) -> None:
    """The operator was shown the Application of ``unseen`` before it was swept, and nothing that is wanted."""
    swept = operator.told["gitopsctl rebuild sweep --current --dry-run"]
    assert application_name(unseen) in swept
    assert [each["metadata"]["name"] for each in wanted if application_name(each) in swept] == []


@pytest.mark.long  # all rows are streamed again in tests/drills/test_lost_kafka.py, too
@pytest.mark.parametrize("loss", ["dropped", "limit reached"])
async def test_slot_when_lost_then_all_rows_are_streamed_again_and_what_was_deleted_unseen_is_withdrawn(
    stack: HostedStack, operator: Operator, tenant: Tenant, loss: str
) -> None:
    kept, changed, unseen = [await tenant.create(name) for name in ("kept", "changed", "unseen")]
    for name in ("kept", "changed", "unseen"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    before = identity(tenant, kept)
    loop = asyncio.get_running_loop()

    def change_unseen() -> None:
        """While the connector is away rows change, and one goes that nobody is told of."""
        patch = path("since")
        asyncio.run_coroutine_threadsafe(tenant.patch("changed", patch), loop).result(30)
        with operator.owner() as owner:
            owner.execute(UNSEEN, [application_name(unseen)])
        told = until_measured(stack, "planner", UNCONFIRMED, math.isinf)
        asyncio.run_coroutine_threadsafe(told, loop).result()

    def lose_slot() -> None:
        if loss == "limit reached":
            operator.stop("connect")()
            reach_limit(operator)
            operator.start("connect")()

    await asyncio.to_thread(lose_slot)

    def change_meanwhile(command: str) -> None:
        if command == "gitopsctl connector apply":
            change_unseen()

    await asyncio.to_thread(operator.follow_runbook, "lost-replication-slot.md", {}, change_meanwhile)
    await tenant.until_path(changed, "since")
    assert identity(tenant, kept) == before
    require_unknown(operator, unseen, kept, changed)
    await tenant.until_application_gone(unseen)
    await until_measured(stack, "planner", UNCONFIRMED, lambda size: size < ALERTED)


@pytest.mark.long
async def test_offsets_of_connect_when_lost_then_changes_of_the_meantime_take_effect_and_nothing_is_deployed_anew(
    stack: HostedStack, operator: Operator, tenant: Tenant, api: Api
) -> None:
    kept, changed, deleted, unseen = [await tenant.create(name) for name in ("kept", "changed", "deleted", "unseen")]
    for name in ("kept", "changed", "deleted", "unseen"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    before = identity(tenant, kept)
    loop = asyncio.get_running_loop()

    def lose_offsets() -> None:
        """While the connector is away rows change, and one goes: no snapshot has that."""
        delete_offsets(stack)
        with operator.owner() as owner:
            owner.execute(UNSEEN, [application_name(unseen)])
        patch = path("since")
        asyncio.run_coroutine_threadsafe(tenant.patch("changed", patch), loop).result(30)
        asyncio.run_coroutine_threadsafe(tenant.delete("deleted"), loop).result(30)

    by_hand = {
        1: [operator.stop("connect"), lose_offsets],
        2: [operator.start("connect")],
    }
    await asyncio.to_thread(operator.follow_runbook, "lost-connect-offsets.md", by_hand)
    require_unknown(operator, unseen, kept, changed)
    await tenant.until_application_gone(unseen)
    await tenant.until_path(changed, "since")
    await tenant.until_application_gone(deleted)
    assert identity(tenant, kept) == before
