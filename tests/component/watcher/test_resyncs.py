"""The log always holds a complete list, on a real API server and a real broker; and an operator's proof of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from services.cli.replay import replay
from services.common.messages import ResourceChanged, ResyncCompleted
from services.watcher.followed_kinds import KINDS
from tests.component.watcher.conftest import PARTITIONS
from tests.component.watcher.rig import Rig, Sent, Tenant

OFTEN = timedelta(seconds=3)


def epochs(sent: list[Sent]) -> dict[str, set[int]]:
    """Of each kind, those that are declared in every partition."""
    markers = [item for item in sent if isinstance(item.event, ResyncCompleted)]
    places: dict[tuple[str, int], set[int]] = {}
    for item in markers:
        places.setdefault((item.event.kind, item.event.epoch), set()).add(item.partition)
    whole = [known for known, partitions in places.items() if len(partitions) == PARTITIONS]
    return {kind.name: {epoch for name, epoch in whole if name == kind.name} for kind in KINDS}


def check(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    """Exit code and output of ``gitopsctl replay check`` for the test's own log."""
    monkeypatch.setattr(replay, "LOG", rig.topics.commands)
    settings = rig.settings
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": settings.kafka_bootstrap_servers,
        "SCHEMA_REGISTRY_URL": settings.schema_registry_url,
    }
    ended = CliRunner().invoke(replay.app, ["check", "--workspace", settings.workspace, "-o", "json"], env=environment)
    return ended.exit_code, orjson.loads(ended.stdout)


def cut_off(rig: Rig, before: dict[int, int]) -> None:
    """Take away the front of the log, as retention does."""
    admin = AdminClient({"bootstrap.servers": rig.settings.kafka_bootstrap_servers})
    ends = [TopicPartition(rig.topics.commands, partition, offset) for partition, offset in before.items()]
    for outcome in admin.delete_records(ends).values():
        outcome.result(timeout=10)


async def test_kinds_when_time_passes_then_each_is_listed_anew_without_a_restart_and_the_log_proves_complete(
    rig: Rig, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tenant.create("web")
    async with rig.watcher(resync_interval=OFTEN):
        first = await rig.commands.until(
            "every kind was listed", lambda sent: epochs(sent) if all(epochs(sent).values()) else None
        )
        await rig.commands.until(
            "every kind was listed anew",
            lambda sent: all(len(known) > 1 for known in epochs(sent).values()),
        )
    code, told = await asyncio.to_thread(check, rig, monkeypatch)  # a watcher that runs would log to its output
    assert (code, told["complete"], told["missing"]) == (0, True, [])
    assert told["workspaces"][rig.settings.workspace]["oldest_epoch"] >= min(map(max, first.values()))
    shown = [item.event.epoch for item in rig.commands.sent if isinstance(item.event, ResourceChanged)]
    assert len(set(shown)) > 1, "the resource, unchanged, is in each list"


async def test_log_when_retention_has_taken_the_beginning_of_the_only_list_then_the_check_says_what_is_missing(
    rig: Rig, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tenant.create("web")
    async with rig.watcher():
        await rig.commands.until("every kind was listed", lambda sent: all(epochs(sent).values()))
    await asyncio.to_thread(cut_off, rig, {0: 1})
    code, told = await asyncio.to_thread(check, rig, monkeypatch)
    assert code == replay.INCOMPLETE
    assert {each["partition"] for each in told["missing"]} == {0}
    assert {each["kind"] for each in told["missing"]} == {kind.name for kind in KINDS}
