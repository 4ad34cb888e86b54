"""The declaration of topics keeps the promises that the design builds on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from services.cli.installation.connector import DEFINITION
from services.common.errors import InvalidConfiguration
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    FLEET,
    FLEET_ORDERS,
    OBSERVATIONS,
    PLACEMENT,
    WORKSPACE,
    Topic,
    engine_topic,
    load_acls,
    load_topics,
    log_of,
    objects_topic,
    observations_topic,
    reporting_cluster,
    workspace_topic,
)

TOPICS = {topic.name: topic for topic in load_topics()}
ROWS, REPORTS = load_topics(engine_cluster="any")
DAY_MS = 24 * 60 * 60 * 1000


def test_topics_when_declared_then_those_the_services_use_are_among_them() -> None:
    assert TOPICS.keys() >= {COMMANDS, FLEET, FLEET_ORDERS, WORKSPACE, DEAD_LETTERS}


def test_engine_topic_when_partitioned_then_as_the_connector_routes() -> None:
    connector = json.loads(DEFINITION.read_text())
    assert connector["transforms.partition.partition.topic.num"] == str(ROWS.partitions)


def test_topics_of_an_engine_cluster_when_it_is_named_then_they_are_declared_for_that_one() -> None:
    assert ROWS.name == engine_topic("any") == "gitops.engine.any"
    assert REPORTS.name == observations_topic("any") == "gitops.observations.any"


@pytest.mark.parametrize(
    ("topic", "log", "cluster"),
    [
        ("gitops.observations.any", OBSERVATIONS, "any"),
        ("gitops.observations", OBSERVATIONS, None),
        ("gitops.observationsany", "gitops.observationsany", None),
        (COMMANDS, COMMANDS, None),
    ],
)
def test_topic_when_it_holds_observations_then_its_name_says_whose_agents_write_it(
    topic: str, log: str, cluster: str | None
) -> None:
    assert (log_of(topic), reporting_cluster(topic)) == (log, cluster)


def test_document_when_a_file_lacks_it_then_it_declares_nothing_there(tmp_path: Path) -> None:
    """Such as one that takes all rights of a single principal away."""
    path = tmp_path / "topics.yaml"
    path.write_text("- {name: a, partitions: 1}")
    assert [len(load_topics(path, **given)) for given in ({}, {"engine_cluster": "any"}, {"workspace": "any"})] == [
        1,
        0,
        0,
    ]


def test_commands_and_observations_when_partitioned_then_alike() -> None:
    assert TOPICS[COMMANDS].partitions == REPORTS.partitions


def test_fleet_orders_when_many_planners_read_then_one_decides_on_all_of_them() -> None:
    assert TOPICS[FLEET_ORDERS].partitions == 1


@pytest.mark.parametrize("topic", [TOPICS[FLEET_ORDERS], REPORTS], ids=lambda topic: topic.name)
def test_topic_when_its_order_counts_and_senders_have_other_clocks_then_the_brokers_say_when_that_was(
    topic: Topic,
) -> None:
    assert topic.config["message.timestamp.type"] == "LogAppendTime"


def test_fleet_orders_when_a_service_would_write_them_then_it_may_not() -> None:
    services = {**load_acls(), **load_acls(workspace="any"), **load_acls(engine_cluster="any")}
    assert [name for name, rights in services.items() if "write" in rights.topics.get(FLEET_ORDERS, ())] == []


def test_workspace_topic_when_old_then_it_keeps_the_latest_status() -> None:
    assert TOPICS[WORKSPACE].config["cleanup.policy"] == "compact"


def test_objects_topic_when_partitioned_then_as_the_topic_of_the_statuses_that_the_same_watchers_read() -> None:
    statuses, objects = load_topics(workspace="any")
    assert (statuses.name, objects.name) == (workspace_topic("any"), objects_topic("any"))
    assert objects.model_dump(exclude={"name"}) == statuses.model_dump(exclude={"name"})


@pytest.mark.parametrize(
    "topic", [*TOPICS.values(), ROWS, REPORTS, *load_topics(workspace="any")], ids=lambda topic: topic.name
)
def test_topic_when_years_pass_then_it_does_not_grow_with_them(topic: Topic) -> None:
    kept = {name: int(value) for name, value in topic.config.items() if value.isdecimal()}
    if topic.config["cleanup.policy"] == "delete":
        assert kept["retention.ms"] <= 30 * DAY_MS
    else:
        assert topic.config["cleanup.policy"] == "compact"
        assert kept["segment.bytes"] <= 64 * 1024 * 1024, "the newest is never compacted"
        assert kept["max.compaction.lag.ms"] == DAY_MS
        assert kept["delete.retention.ms"] == (14 * DAY_MS if topic.name == PLACEMENT else DAY_MS)


@pytest.mark.parametrize(
    "text",
    [
        "- name: x\n",
        "- {name: 'a b', partitions: 1}",
        "- {name: a, partitions: 0}",
        "{",
        "- {name: a, partitions: 1, x: 2}",
    ],
)
def test_declaration_when_malformed_then_the_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.yaml"
    path.write_text(text)
    with pytest.raises(InvalidConfiguration, match=r"topics\.yaml"):
        load_topics(path)
