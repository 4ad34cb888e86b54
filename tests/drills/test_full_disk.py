"""A store's disk is truly full: what is acknowledged meanwhile is deployed once there is room, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from devstack.harness.small_disk import SmallDisk, small_disk
from services.common.errors import NoPermission
from services.common.kubernetes import Manifest
from tests.chaos.test_writes_in_hand import until
from tests.drills.test_lost_database import identity
from tests.drills.test_lost_stream import FILL_SEGMENT
from tests.e2e.tenant import Tenant, application_name, find, path

FULL = b"No space left on device"
"""As the C library says it, and so whoever meets it."""
MOST_CHANGES = 150


@pytest.fixture
def disk(request: pytest.FixtureRequest, stack: HostedStack, operator: Operator) -> Iterator[SmallDisk]:
    """Has the data of a process, named by the parameter, until the drill ends."""
    process = request.param
    operator.stop(process)()
    try:
        with small_disk(stack.state.root / process) as small:
            operator.start(process)()
            try:
                yield small
            finally:
                if process in stack.pids():
                    operator.stop(process)()
    except NoPermission as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        operator.start(process)()
        operator.start_ended()


def write_log(operator: Operator) -> None:
    """Have PostgreSQL begin another segment of its write-ahead log, which ends it if there is no room for one."""
    try:
        with operator.superuser("gitops") as superuser:
            superuser.execute(FILL_SEGMENT)
    except psycopg.Error:
        return


def write_nothing(_: Operator) -> None:
    """The product's own writes fill the disk."""


def meeting_full_disk(log: Path) -> Callable[[], bool]:
    """Whether ``log`` says from now on that somebody has met it."""
    begin = log.stat().st_size

    def is_met() -> bool:
        with log.open("rb") as stream:
            stream.seek(begin)
            return FULL in stream.read()

    return is_met


def has_ended(stack: HostedStack, process: str) -> bool:
    """By itself: it says that the disk is full a moment before."""
    return any(each["name"] == process and each["phase"] == "died" for each in stack.processes())


async def change_until(is_met: Callable[[], bool], tenant: Tenant, write: Callable[[], None]) -> list[Manifest]:
    """Deployments that are made until the disk is met; each of those before that is applied."""
    made = list[Manifest]()

    def is_applied() -> bool:
        return find(tenant.applications.objects, application_name(made[-1])) is not None

    while not is_met():
        assert len(made) < MOST_CHANGES, "nobody meets a full disk"
        made.append(await tenant.create(f"late-{len(made)}"))
        await asyncio.to_thread(write)
        await until("it is applied, or not", lambda: is_met() or is_applied())
    return made


@pytest.mark.long
@pytest.mark.parametrize(
    ("disk", "process", "write", "ends"),
    [
        pytest.param("postgres", "postgres", write_nothing, False, id="PostgreSQL's tables"),
        pytest.param("postgres", "postgres", write_log, False, id="PostgreSQL's log"),
        pytest.param("kafka", "kafka", write_nothing, True, id="Kafka"),
    ],
    indirect=["disk"],
)
async def test_disk_when_it_is_full_then_what_is_acknowledged_meanwhile_is_deployed_once_there_is_room(
    stack: HostedStack,
    operator: Operator,
    tenant: Tenant,
    disk: SmallDisk,
    process: str,
    write: Callable[[Operator], None],
    *,
    ends: bool,
) -> None:
    kept, changed, deleted = [await tenant.create(name) for name in ("kept", "changed", "deleted")]
    for name in ("kept", "changed", "deleted"):
        await tenant.until_status("Synced", name, sync__status="Synced")
    before = identity(tenant, kept)
    is_met = meeting_full_disk(stack.state.log(process))
    disk.fill()
    late = await change_until(is_met, tenant, partial(write, operator))
    await tenant.patch("changed", path("since"))
    await tenant.delete("deleted")
    late.append(await tenant.create("last"))
    await until("it has ended, if it always does", lambda: not ends or has_ended(stack, process))
    by_hand = {1: [disk.make_room], 2: [operator.start_ended]}
    await asyncio.to_thread(operator.follow_runbook, "full-disk.md", by_hand)
    await tenant.until_path(changed, "since")
    await tenant.until_application_gone(deleted)
    for created in late:
        await tenant.until_status("Synced", created["metadata"]["name"], sync__status="Synced")
    assert identity(tenant, kept) == before
