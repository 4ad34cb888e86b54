from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.common.errors import Retry
from services.common.messages import Command
from services.common.telemetry import TRACEPARENT, trace_id
from services.kinds.gitops_deployment.model import GITOPS_DEPLOYMENT
from services.watcher.commands.bounded_producer import BoundedProducer
from services.watcher.commands.translation import Translator, spec_within
from tests.unit.watcher.fakes import FULL, FakePublisher, PlainCodec
from tests.unit.watcher.manifests import NOW, resource

DEADLINE_SECONDS = 30
TRANSLATE = Translator("local", GITOPS_DEPLOYMENT, spec_within(1024))


def command(name: str = "web") -> Command:
    return TRANSLATE.changed(resource(name), 1, NOW)


def new_producer(publisher: Any, limit: int = 10) -> BoundedProducer:
    codec: Any = PlainCodec()
    return BoundedProducer(publisher, codec, limit, "commands")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_command_when_put_then_it_goes_by_its_tenants_key_with_a_trace_of_its_own() -> None:
    publisher = FakePublisher()
    producer = new_producer(publisher)
    await producer.send_command(command("a"))
    await producer.send_command(command("b"))
    assert [(topic, key, partition) for topic, key, _, partition in publisher.sent] == [
        ("commands", b"local/team-a", -1)
    ] * 2
    traces = {trace_id(str(headers[TRACEPARENT])) for headers in publisher.headers}
    assert len(traces) == 2
    assert "" not in traces


async def test_marker_when_put_everywhere_then_each_partition_has_one() -> None:
    publisher = FakePublisher()
    await new_producer(publisher).send_to_all_partitions(TRANSLATE.resync_completed(1, NOW), 3)
    assert [(key, partition) for _, key, _, partition in publisher.sent] == [(None, 0), (None, 1), (None, 2)]


async def test_command_when_too_many_are_unacknowledged_then_it_waits() -> None:
    publisher = FakePublisher(holding=True)
    producer = new_producer(publisher, limit=2)
    await producer.send_command(command())
    await producer.send_command(command())
    third = asyncio.ensure_future(producer.send_command(command()))
    await settle()
    assert not third.done()
    assert len(publisher.sent) == 2
    publisher.acknowledge()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await third
    assert len(publisher.sent) == 3


async def test_command_when_the_local_queue_is_full_then_it_waits_and_drops_nothing() -> None:
    publisher = FakePublisher(refusing=[FULL, FULL])
    async with asyncio.timeout(DEADLINE_SECONDS):
        await new_producer(publisher).send_command(command())
    assert len(publisher.sent) == 1


async def test_command_when_the_message_cannot_be_queued_at_all_then_it_says_so() -> None:
    publisher = FakePublisher(refusing=[Retry("fatal error")])
    with pytest.raises(Retry, match="fatal error"):
        await new_producer(publisher).send_command(command())


async def test_delivery_when_something_is_unacknowledged_then_it_waits_for_it() -> None:
    publisher = FakePublisher(holding=True)
    producer = new_producer(publisher)
    await producer.send_command(command())
    waiting = asyncio.ensure_future(producer.wait_for_delivery())
    await settle()
    assert not waiting.done()
    publisher.acknowledge()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await waiting


@pytest.mark.parametrize("what", ["send", "delivery", "lost"])
async def test_producer_when_a_command_was_lost_then_everyone_who_waits_learns_of_it(what: str) -> None:
    publisher = FakePublisher(holding=True)
    producer = new_producer(publisher, limit=1)
    await producer.send_command(command())
    waiting = {
        "send": lambda: producer.send_command(command()),
        "delivery": producer.wait_for_delivery,
        "lost": lambda: producer.lost,
    }[what]
    asking = asyncio.ensure_future(waiting())
    await settle()
    publisher.lose(0)
    with pytest.raises(Retry, match="not delivered"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asking


async def test_command_when_too_many_bytes_are_unacknowledged_then_it_waits_but_one_may_be_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.watcher.commands.bounded_producer.BYTES_IN_FLIGHT", 10)
    publisher = FakePublisher(holding=True)
    producer = new_producer(publisher)
    await producer.send_command(command())
    second = asyncio.ensure_future(producer.send_command(command()))
    await settle()
    assert len(publisher.sent) == 1
    publisher.acknowledge()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await second
    assert len(publisher.sent) == 2


async def test_command_when_this_process_does_not_lead_any_more_then_it_is_not_sent() -> None:
    publisher, codec, leading = FakePublisher(), PlainCodec(), [True]
    unchecked: Any = (publisher, codec)
    producer = BoundedProducer(*unchecked, 10, "commands", may_send=lambda: leading[0])
    await producer.send_command(command("a"))
    leading[0] = False
    with pytest.raises(Retry, match="does not lead"):
        await producer.send_command(command("b"))
    assert len(publisher.sent) == 1
