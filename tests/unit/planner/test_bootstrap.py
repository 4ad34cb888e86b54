"""What the brokers have to have, and to allow, before a planner begins."""

from __future__ import annotations

import pytest

from services.common.errors import InvalidConfiguration, NoPermission, StartupError
from services.common.kafka import COMMANDS, DEAD_LETTERS, FLEET_ORDERS, observations_topic
from services.planner import bootstrap

REPORTS, OF_NORTH = observations_topic("default"), observations_topic("north")
TOPICS = {COMMANDS: 12, REPORTS: 12, OF_NORTH: 12, FLEET_ORDERS: 1, DEAD_LETTERS: 1}
REFUSED: dict[str, tuple[dict[str, int], int | None, type[StartupError], str]] = {
    "fewer observations": (TOPICS | {REPORTS: 6}, 6, InvalidConfiguration, "must have the same number"),
    "of another cluster": (
        TOPICS | {OF_NORTH: 24},
        6,
        InvalidConfiguration,
        rf"{OF_NORTH} 24; they must have the same",
    ),
    "orders apart": (TOPICS | {FLEET_ORDERS: 2}, 6, InvalidConfiguration, "must have one"),
    "no right": (TOPICS, None, NoPermission, r"describe gitops\.engine\.default; see 'gitopsctl topics acls'"),
}


def check(monkeypatch: pytest.MonkeyPatch, topics: dict[str, int], of_cluster: int | None) -> None:
    monkeypatch.setattr(bootstrap, "count_partitions", lambda _, names: {name: topics[name] for name in names})
    monkeypatch.setattr(bootstrap, "existing_partitions", lambda _: topics)
    monkeypatch.setattr(bootstrap, "described_partitions", lambda _, names: dict.fromkeys(names, of_cluster))
    bootstrap._check_topics("broker:9092")


@pytest.mark.parametrize(("topics", "of_cluster", "error", "told"), REFUSED.values(), ids=REFUSED)
def test_planner_when_the_brokers_have_or_allow_something_else_then_it_does_not_begin_and_says_what(
    monkeypatch: pytest.MonkeyPatch,
    topics: dict[str, int],
    of_cluster: int | None,
    error: type[StartupError],
    told: str,
) -> None:
    with pytest.raises(error, match=told):
        check(monkeypatch, topics, of_cluster)


@pytest.mark.parametrize("of_cluster", [0, 6])
def test_planner_when_all_is_as_it_has_to_be_then_it_begins_with_or_without_an_engine_cluster(
    monkeypatch: pytest.MonkeyPatch, of_cluster: int
) -> None:
    check(monkeypatch, TOPICS, of_cluster)
