"""What no log tells of, a periodic list shows: nobody is restarted for it, and no operator does anything."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from services.common.kafka import COMMANDS, PartitionReader, TopicPartition, tenant_key
from services.common.kubernetes import Manifest
from tests.component.agent.worker import Worker
from tests.drills.test_truncated_log import ends_of, truncate
from tests.e2e.tenant import Tenant

PLANNERS, WATCHERS = ("planner-1", "planner-2"), ("watcher-1", "watcher-2")
SENT_SECONDS = 120
LISTED_SECONDS = 300
"""Within a minute, and the machine is busy."""


@contextmanager
def often_listing(stack: HostedStack, log: Path) -> Iterator[Worker]:
    """A watcher in place of the stack's, which lists each kind once a minute: theirs do so once in three days."""
    operator = Operator(stack, log.parent)
    operator.stop(*WATCHERS)()
    watcher = Worker(stack.environment_of("watcher") | {"RESYNC_INTERVAL": "PT1M"}, log, "services.watcher")
    try:
        yield watcher
    finally:
        watcher.stop()
        operator.start(*WATCHERS)()


def is_sent(stack: HostedStack, created: Manifest, before: Mapping[TopicPartition, int]) -> bool:
    """Whether the log has a command about a resource."""
    meta = created["metadata"]
    key, uid = tenant_key("local", meta["namespace"]), meta["uid"].encode()
    with PartitionReader(stack.log, "tests") as reader:
        found = reader.read_messages(ends_of(stack, COMMANDS), before)
        return any(message.key == key and uid in (message.value or b"") for message in found)


async def test_command_when_no_log_has_it_then_the_next_periodic_list_brings_the_resource(
    stack: HostedStack, tenant: Tenant, tmp_path: Path
) -> None:
    operator = Operator(stack, tmp_path)
    with often_listing(stack, tmp_path / "watcher.log") as watcher:
        await tenant.application_of(await tenant.create("known"))
        await asyncio.to_thread(operator.stop(*PLANNERS))
        before = await asyncio.to_thread(ends_of, stack, COMMANDS)
        missing = await tenant.create("missing")
        deadline = time.monotonic() + SENT_SECONDS
        while not await asyncio.to_thread(is_sent, stack, missing, before):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        await asyncio.to_thread(truncate, stack)
        await asyncio.to_thread(operator.start(*PLANNERS))

        await tenant.application_of(missing, LISTED_SECONDS)
        await tenant.until_status("Synced", "missing", LISTED_SECONDS, sync__status="Synced")
        assert watcher.process.poll() is None, "the watcher was not restarted"
