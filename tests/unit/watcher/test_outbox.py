from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.common.errors import Retry
from services.common.kube import GITOPS_DEPLOYMENT
from services.common.messages import Command
from services.common.telemetry import TRACEPARENT, trace_id
from services.watcher.commands import Translator, spec_within
from services.watcher.outbox import Outbox
from tests.unit.watcher.fakes import FULL, FakePublisher, PlainCodec
from tests.unit.watcher.manifests import NOW, resource

DEADLINE_SECONDS = 5
TRANSLATE = Translator("local", GITOPS_DEPLOYMENT, spec_within(1024))


def command(name: str = "web") -> Command:
    return TRANSLATE.changed(resource(name), 1, NOW)


def outbox(publisher: Any, limit: int = 10) -> Outbox:
    codec: Any = PlainCodec()
    return Outbox(publisher, codec, limit, "commands")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_command_when_put_then_it_goes_by_its_tenants_key_with_a_trace_of_its_own() -> None:
    publisher = FakePublisher()
    box = outbox(publisher)
    await box.put(command("a"))
    await box.put(command("b"))
    assert [(topic, key, partition) for topic, key, _, partition in publisher.sent] == [
        ("commands", b"local/team-a", -1)
    ] * 2
    traces = {trace_id(str(headers[TRACEPARENT])) for headers in publisher.headers}
    assert len(traces) == 2
    assert "" not in traces


async def test_marker_when_put_everywhere_then_each_partition_has_one() -> None:
    publisher = FakePublisher()
    await outbox(publisher).put_everywhere(TRANSLATE.resync_completed(1, NOW), 3)
    assert [(key, partition) for _, key, _, partition in publisher.sent] == [(None, 0), (None, 1), (None, 2)]


async def test_put_when_too_many_are_unacknowledged_then_it_waits() -> None:
    publisher = FakePublisher(holding=True)
    box = outbox(publisher, limit=2)
    await box.put(command())
    await box.put(command())
    third = asyncio.ensure_future(box.put(command()))
    await settle()
    assert not third.done()
    assert len(publisher.sent) == 2
    publisher.acknowledge()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await third
    assert len(publisher.sent) == 3


async def test_put_when_the_local_queue_is_full_then_it_waits_and_drops_nothing() -> None:
    publisher = FakePublisher(refusing=[FULL, FULL])
    async with asyncio.timeout(DEADLINE_SECONDS):
        await outbox(publisher).put(command())
    assert len(publisher.sent) == 1


async def test_put_when_the_message_cannot_be_queued_at_all_then_it_says_so() -> None:
    publisher = FakePublisher(refusing=[Retry("fatal error")])
    with pytest.raises(Retry, match="fatal error"):
        await outbox(publisher).put(command())


async def test_delivered_when_something_is_unacknowledged_then_it_waits_for_it() -> None:
    publisher = FakePublisher(holding=True)
    box = outbox(publisher)
    await box.put(command())
    waiting = asyncio.ensure_future(box.delivered())
    await settle()
    assert not waiting.done()
    publisher.acknowledge()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await waiting


@pytest.mark.parametrize("what", ["put", "delivered", "lost"])
async def test_outbox_when_a_command_was_lost_then_everyone_who_waits_learns_of_it(what: str) -> None:
    publisher = FakePublisher(holding=True)
    box = outbox(publisher, limit=1)
    await box.put(command())
    waiting = {"put": lambda: box.put(command()), "delivered": box.delivered, "lost": lambda: box.lost}[what]
    asking = asyncio.ensure_future(waiting())
    await settle()
    publisher.lose(0)
    with pytest.raises(Retry, match="not delivered"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asking


async def test_put_when_too_many_bytes_are_unacknowledged_then_it_waits_but_one_may_be_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.watcher.outbox.BYTES_IN_FLIGHT", 10)
    publisher = FakePublisher(holding=True)
    box = outbox(publisher)
    await box.put(command())
    second = asyncio.ensure_future(box.put(command()))
    await settle()
    assert len(publisher.sent) == 1
    publisher.acknowledge()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await second
    assert len(publisher.sent) == 2
