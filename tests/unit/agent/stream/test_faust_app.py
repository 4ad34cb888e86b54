"""What faust commits, and when an agent knows that it is a member of the group."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faust
import pytest

from services.agent.settings import AgentSettings
from services.agent.stream.faust_app import beating, confirming, faust_app, joining, take_part
from services.common.kafka import GroupSession, OffsetTracker, TopicPartition, TrackedOffset
from tests.unit.common.kafka.offset_contract import MESSAGES, OffsetContract
from tests.unit.fake_clock import FakeClock

SOURCE = TopicPartition("gitops.engine", 0)


class FaustMember:
    """faust's consumer of one partition; commits go nowhere but into its own memory."""

    def __init__(self, app: faust.App, offsets: OffsetTracker) -> None:
        def nobody(*_):
            return None

        callbacks = {"callback": nobody, "on_partitions_revoked": nobody, "on_partitions_assigned": nobody}
        self._consumer: Any = app.transport.create_consumer(**callbacks)
        self._consumer._commit_offsets = self._commit
        self._offsets = offsets

    def assign(self) -> list[TrackedOffset]:
        first = self._consumer._committed_offset[SOURCE] or 0
        self._offsets.assign_partitions({SOURCE: first})
        tracked = [self._offsets.track_offset(SOURCE, offset) for offset in range(first, first + MESSAGES)]
        return [each for each in tracked if each]

    def acknowledge(self, tracked: TrackedOffset) -> None:
        self._offsets.acknowledge_offset(tracked)

    def revoke(self) -> None:
        self._offsets.revoke_partitions([SOURCE])

    def committed(self) -> int | None:
        with pytest.raises(StopIteration):  # it waits for nothing here
            self._consumer.force_commit().send(None)
        committed: int | None = self._consumer._committed_offset[SOURCE]
        return committed

    async def _commit(self, offsets: Mapping[Any, int]) -> bool:
        self._consumer._committed_offset.update(offsets)
        return True


class TestFaust(OffsetContract):
    @pytest.fixture
    async def committing(self, tmp_path: Path) -> FaustMember:
        settings, offsets = AgentSettings.model_construct(kafka_bootstrap_servers="anywhere:1"), OffsetTracker()
        session = GroupSession(settings.session_timeout_seconds)
        return FaustMember(faust_app(settings, offsets, session, tmp_path), offsets)


@pytest.mark.parametrize("is_member", [True, False])
async def test_member_when_the_broker_answers_then_it_may_act_from_when_it_asked_only_if_it_is_one(
    is_member: bool,
) -> None:
    clock = FakeClock()
    session = GroupSession(6, clock)

    async def heartbeat() -> bool:
        clock.seconds += 2  # the answer takes that long
        return is_member

    assert await confirming(heartbeat, session)() is is_member
    clock.seconds += 3.9
    assert session.is_confirmed is is_member
    clock.seconds += 0.2
    assert not session.is_confirmed


class Coordinator:
    """Of aiokafka: the part that the group is left and joined by."""

    def __init__(self) -> None:
        self._group_instance_id: str | None = "pod-1"
        self.asked: list[str | None] = []

    async def _do_heartbeat(self) -> bool:
        self.asked.append("heartbeat")
        return True

    async def _do_rejoin_group(self, _: object) -> bool:
        self.asked.append("join")
        return True

    async def _maybe_leave_group(self) -> None:
        self.asked.append(f"leave as {self._group_instance_id}")


async def test_member_when_it_takes_no_part_then_it_leaves_though_it_is_static_and_joins_once_it_does(
    tmp_path: Path,
) -> None:
    session, coordinator = GroupSession(6), Coordinator()
    app = faust_app(AgentSettings.model_construct(kafka_bootstrap_servers="x:1"), OffsetTracker(), session, tmp_path)
    transport: Any = app.transport
    beat, join = beating(coordinator, transport), joining(coordinator, transport)
    take_part(app, wanted=False)
    assert (await beat(), await join(None)) == (False, False)
    assert (coordinator.asked, coordinator._group_instance_id) == (["leave as None"], "pod-1")
    assert not session.is_confirmed
    take_part(app, wanted=True)
    assert (await join(None), await beat()) == (True, True)
    assert coordinator.asked[1:] == ["join", "heartbeat"]
    assert session.is_confirmed


async def test_member_when_it_takes_part_again_before_it_has_left_then_it_leaves_all_the_same_and_joins(
    tmp_path: Path,
) -> None:
    session, coordinator = GroupSession(6), Coordinator()
    app = faust_app(AgentSettings.model_construct(kafka_bootstrap_servers="x:1"), OffsetTracker(), session, tmp_path)
    transport: Any = app.transport
    beat, join = beating(coordinator, transport), joining(coordinator, transport)
    take_part(app, wanted=False)
    take_part(app, wanted=True)
    assert (await beat(), await join(None), await beat()) == (False, True, True)
    assert coordinator.asked == ["leave as None", "join", "heartbeat"]
