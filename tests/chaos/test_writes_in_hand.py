"""A process is stopped with a write in hand, and goes on when another has written what is newer: that stays.

A slow or cut link holds the write back until the process is stopped, and works again before it goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from devstack.argocd_simulator.behaviour import SILENT
from devstack.harness.hosted import HostedStack
from devstack.harness.owners import agent_of, await_replaced, await_shares, leading_watcher, planner_of
from devstack.stack.identities import WORKSPACE
from devstack.stack.links import Link
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.kafka import COMMANDS, ConsumedMessage, PartitionReader, Publisher, workspace_topic
from services.common.kubernetes import APPLICATION, Manifest
from services.common.messages import Command, ResourceChanged
from tests.chaos.written import Written, is_in_order, recorded
from tests.drills.alert_metrics import measured
from tests.e2e.tenant import Tenant, application_name, find, path

LATE_MILLISECONDS = 400
"""A planner looks after a second whether the database still answers, with a connection that takes four answers."""
HELD = tuple(f"held-{number}" for number in range(10))
"""Paths of changes that are stopped on their way; of a planner it takes several at times."""
NOTICED_SECONDS = 120
LOOK_SECONDS = 0.02
ANSWER_SECONDS = 1.0
IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity
 WHERE state = 'idle in transaction' AND query LIKE '%EXECUTE fence%EXECUTE save%'
"""
"""Batches that are written and not committed; of planners whose links are not slow they are none for long."""
OLDEST_LIST = "SELECT min(epoch) FROM complete_lists WHERE kind = %s"
KNOWN = "SELECT count(*) FROM deployments WHERE uid = %s"
KIND = "GitOpsDeployment"
WATCHERS = ("watcher-1", "watcher-2")


async def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + NOTICED_SECONDS
    while not await asyncio.to_thread(is_so):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(LOOK_SECONDS)


class Log:
    """What a process says from now on."""

    def __init__(self, stack: HostedStack, process: str) -> None:
        self._file: Path = stack.state.log(process)
        self._begin = self._file.stat().st_size

    async def until_line(self, *parts: str) -> None:
        await until(f"{self._file.name} has a line with {parts}", lambda: self._has_line(parts))

    def _has_line(self, parts: tuple[str, ...]) -> bool:
        with self._file.open() as stream:
            stream.seek(self._begin)
            return any(all(part in line for part in parts) for line in stream)


async def stop_planner(stack: HostedStack, tenant: Tenant, planner: str) -> None:
    """Between its statements and the commit of a batch that holds a change of the tenant's."""

    def is_in_transaction() -> bool:
        with psycopg.connect(stack.environment["DATABASE_URL"]) as database:
            (number,) = database.execute(IN_TRANSACTION).fetchone() or (0,)
            return bool(number)

    link = Link(planner, "postgres")
    await asyncio.to_thread(stack.links.slow, link, latency_ms=LATE_MILLISECONDS)
    for held in HELD:
        await tenant.patch("kept", path(held))
        await until("a batch is not committed yet", is_in_transaction)
        await asyncio.to_thread(stack.freeze, planner)
        await asyncio.sleep(ANSWER_SECONDS)  # a commit that was sent is done by now
        if await asyncio.to_thread(is_in_transaction):
            break
        await asyncio.to_thread(stack.thaw, planner)
    else:
        pytest.fail("it was never stopped before its commit")
    await asyncio.to_thread(stack.links.mend, link)


async def stop_agent(stack: HostedStack, tenant: Tenant, agent: str) -> None:
    """With an Application to be applied that has not reached the API server."""

    def pending() -> float:
        return measured(stack, agent, "gitops_engine_pending_resources")

    link = Link(agent, "kube-apiserver")
    await until("all is as desired", lambda: not pending())
    await asyncio.to_thread(stack.links.cut, link)
    await tenant.patch("kept", path(HELD[0]))
    await until("an Application is not as desired yet", lambda: bool(pending()))
    await asyncio.to_thread(stack.freeze, agent)
    await asyncio.to_thread(stack.links.mend, link)


Stop = Callable[[HostedStack, Tenant, str], Awaitable[None]]


@pytest.mark.parametrize(
    ("service", "stop", "refused"),
    [
        pytest.param("planner", stop_planner, ("batch not done", "Fenced"), id="planner"),
        pytest.param("agent", stop_agent, ("not applied yet", "{application}"), id="agent"),
    ],
)
async def test_process_when_it_is_stopped_with_a_write_in_hand_then_what_another_has_written_since_stays(
    stack: HostedStack, tenant: Tenant, service: str, stop: Stop, refused: tuple[str, ...]
) -> None:
    await asyncio.to_thread(await_shares, stack, service)
    kept = await tenant.create("kept")
    application = await tenant.application_of(kept)
    await tenant.until_status("Synced", "kept", sync__status="Synced")
    engine = application["metadata"]["namespace"]
    victim = planner_of(stack, tenant.namespace) if service == "planner" else agent_of(stack, engine)
    async with recorded(tenant.kube, engine, tenant.namespace) as written:
        await stop(stack, tenant, victim)
        log = Log(stack, victim)
        try:
            await tenant.patch("kept", path("elsewhere"))
            await tenant.until_path(kept, "elsewhere")
            await written.until_shown(kept, "elsewhere")
        finally:
            await asyncio.to_thread(stack.thaw, victim)
        await log.until_line(*(part.format(application=application_name(kept)) for part in refused))
        await asyncio.to_thread(await_shares, stack, service)
        await tenant.patch("kept", path("back"))
        await tenant.until_path(kept, "back")
        await written.until_shown(kept, "back")
    order = ["apps/kept", *HELD, "elsewhere", "back"]
    assert is_in_order(written.paths(kept), order)
    assert is_in_order(written.shown(kept), order)


async def test_watcher_when_it_is_stopped_with_a_status_in_hand_then_the_newer_one_of_another_stays(
    stack: HostedStack, tenant: Tenant
) -> None:
    writes = {name: count_writes(stack, name) for name in WATCHERS}
    kept = await tenant.create("kept", source={"path": SILENT})
    application = await tenant.application_of(kept)
    async with recorded(tenant.kube, application["metadata"]["namespace"], tenant.namespace) as written:
        await show(tenant, application, written, kept, "first")
        (victim,) = [name for name in WATCHERS if count_writes(stack, name) > writes[name]]
        await stop_watcher(stack, tenant, victim, application)
        log = Log(stack, victim)
        try:
            await show(tenant, application, written, kept, "elsewhere")
        finally:
            await asyncio.to_thread(stack.thaw, victim)
        await log.until_line("status not written yet", tenant.namespace)
        await show(tenant, application, written, kept, "back")
    assert is_in_order(written.shown(kept), ["first", HELD[0], "elsewhere", "back"])


async def test_watcher_when_it_is_stopped_with_a_command_in_hand_and_its_resource_is_gone_by_then_then_it_stays_gone(
    stack: HostedStack, tenant: Tenant
) -> None:
    """What its Kafka client had in its queue is the message of the log once more: only there it stays for so long."""
    kept = await tenant.create("kept")
    await tenant.application_of(kept)
    in_hand, epoch = await asyncio.to_thread(first_command, stack, kept)
    victim = await asyncio.to_thread(leading_watcher, stack)
    await asyncio.to_thread(stack.freeze, victim)
    try:
        await until("its successor has listed all", lambda: of_database(stack, OLDEST_LIST, KIND) > epoch)
        await tenant.delete("kept")
        await tenant.until_application_gone(kept)
        uid = kept["metadata"]["uid"]
        await until("no row has it", lambda: not of_database(stack, KNOWN, uid))
        await asyncio.to_thread(send_again, stack, in_hand)
        await tenant.application_of(await tenant.create("last"))
    finally:
        await asyncio.to_thread(stack.thaw, victim)
    assert not await asyncio.to_thread(of_database, stack, KNOWN, uid)
    assert find(tenant.applications.objects, application_name(kept)) is None
    await asyncio.to_thread(await_replaced, stack, "watcher", victim)


def first_command(stack: HostedStack, created: Manifest) -> tuple[ConsumedMessage, int]:
    """That tells of a resource, and its epoch."""
    settings, uid = stack.log, created["metadata"]["uid"]
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    with PartitionReader(settings, "tests") as reader:
        for message in reader.read_messages(reader.end_offsets(reader.partitions_of(COMMANDS))):
            match codec.decode_message(message.value).event:
                case ResourceChanged(uid=told, epoch=epoch) if told == uid:
                    return message, epoch
    raise AssertionError(f"no command tells of {uid}")


def send_again(stack: HostedStack, message: ConsumedMessage) -> None:
    publisher, source = Publisher(stack.log, "tests"), message.tracked.source
    publisher.send_message(source.topic, message.key, message.value, partition=source.partition).result()
    publisher.close()


def of_database(stack: HostedStack, query: LiteralString, value: str) -> int:
    with psycopg.connect(stack.environment["DATABASE_URL"]) as database:
        (number,) = database.execute(query, [value]).fetchone() or (0,)
        return int(number)


def count_writes(stack: HostedStack, watcher: str) -> float:
    return measured(stack, watcher, "gitops_kubernetes_writes_total", kind="GitOpsDeployment")


async def stop_watcher(stack: HostedStack, tenant: Tenant, watcher: str, application: Manifest) -> None:
    """With a status to be written that has not reached the API server."""

    def received() -> float:
        topic = workspace_topic(WORKSPACE)
        return measured(stack, watcher, "gitops_messages_total", topic=topic, direction="received")

    link, before = Link(watcher, "kube-apiserver"), received()
    await asyncio.to_thread(stack.links.cut, link)
    await compare(tenant, application, HELD[0])
    await until("a status has come", lambda: received() > before)
    await asyncio.to_thread(stack.freeze, watcher)
    await asyncio.to_thread(stack.links.mend, link)


async def show(tenant: Tenant, application: Manifest, written: Written, kept: Manifest, value: str) -> None:
    await compare(tenant, application, value)
    await written.until_shown(kept, value)


async def compare(tenant: Tenant, application: Manifest, value: str) -> None:
    """As Argo CD would say that it has looked at a path: the simulator leaves this Application alone."""
    spec, meta = application["spec"], application["metadata"]
    compared = {"source": spec["source"] | {"path": value}, "destination": spec["destination"]}
    patch = {"status": {"sync": {"status": "OutOfSync", "comparedTo": compared}}}
    await tenant.kube.patch_object(APPLICATION, meta["namespace"], meta["name"], patch, field_manager="argocd")
