"""How far a replay has come, and what the engines' topic says of where tenants are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from services.cli.rebuild import _placements, _sum
from services.common.kafka import TopicPartition
from services.planner.engines.argocd.names import project_name

LOG = TopicPartition("log", 0)
TENANT = UUID(int=7)


@pytest.mark.parametrize(
    ("reached", "done"),
    [
        pytest.param({}, 0, id="nobody has begun"),
        pytest.param({LOG: 0}, 0, id="before the oldest message that there is"),
        pytest.param({LOG: 12}, 2, id="within"),
        pytest.param({LOG: 99}, 5, id="beyond, as changes go on"),
    ],
)
def test_replay_when_followed_then_it_is_counted_from_the_oldest_message_to_where_it_ended(
    reached: dict[TopicPartition, int], done: int
) -> None:
    assert _sum({LOG: 10}, {LOG: 15}, reached) == done


def test_replay_when_retention_has_emptied_a_partition_then_nothing_is_waited_for() -> None:
    assert _sum({LOG: 10}, {LOG: 10}, {LOG: 10}) == _sum({LOG: 10}, {LOG: 10}, {}) == 0


def test_placements_when_read_then_each_tenant_has_the_instance_that_its_lane_is_on() -> None:
    class Topics:
        def placements(self) -> dict[str, str]:
            return {project_name(TENANT): "engine-2", "lane-1": "engine-1", "app-project-1": "engine-1"}

    topics: Any = Topics()
    assert _placements(topics) == {TENANT: "engine-2"}
