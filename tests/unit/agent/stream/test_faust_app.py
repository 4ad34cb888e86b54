"""What faust commits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import faust
import pytest

from services.agent.settings import AgentSettings
from services.agent.stream.faust_app import faust_app
from services.common.kafka import OffsetTracker, TopicPartition, TrackedOffset
from tests.unit.common.kafka.offset_contract import MESSAGES, OffsetContract

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
        return FaustMember(faust_app(settings, offsets, tmp_path), offsets)
