"""The declaration of rights at the brokers: exact names, and those that the services really use."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.components.connect import CONFIGURATION as CONNECT
from examples.provisioner.topic import GROUP as PROVISIONER_GROUP
from services.agent.provisioning.settings import ProvisionerSettings
from services.agent.settings import AgentSettings
from services.common.errors import InvalidConfiguration
from services.common.kafka import (
    OBSERVATIONS,
    PROVISIONING,
    TENANT_CLUSTERS,
    Rights,
    engine_topic,
    load_acls,
    load_topics,
    objects_topic,
    observations_topic,
    workspace_topic,
)
from services.planner.pipeline.batch_consumer import GROUP as PLANNER_GROUP
from services.watcher.rows.row_types import OBJECTS, STATUSES

RIGHTS = load_acls() | load_acls(workspace="local") | load_acls(engine_cluster="default")
PREFIXES = (engine_topic(""), workspace_topic(""), objects_topic(""))
REPORTS = observations_topic("default")
CONNECT_OWN = {"gitops.connect.configs", "gitops.connect.offsets", "gitops.connect.status"}


def test_rights_when_declared_then_each_topic_exists() -> None:
    named = {topic for rights in RIGHTS.values() for topic in rights.topics}
    declared = (*load_topics(), *load_topics(workspace="local"), *load_topics(engine_cluster="default"))
    existing = {topic.name for topic in declared}
    assert named - CONNECT_OWN == existing
    own = {topic for topic in existing if topic.startswith((*PREFIXES, observations_topic("")))}
    assert own == {workspace_topic("local"), objects_topic("local"), engine_topic("default"), REPORTS}


def test_prefix_when_declared_then_connect_writes_what_clusters_have_and_planners_read_what_their_agents_report() -> (
    None
):
    prefixes = {name: rights.topic_prefixes for name, rights in RIGHTS.items() if rights.topic_prefixes}
    assert prefixes == {
        "connect": dict.fromkeys(PREFIXES, ("write",)),
        "planner": {OBSERVATIONS: ("read",), engine_topic(""): ("describe",)},
    }


def shared(first: Rights, second: Rights) -> set[tuple[str, str]]:
    """What both may do; the groups of both."""
    topics = {(topic, operation) for topic in first.topics.keys() & second.topics for operation in first.topics[topic]}
    return topics | {(group, "join") for group in first.groups.keys() & second.groups}


def test_workspaces_when_there_are_two_then_their_watchers_read_where_tenants_are_and_nothing_else_in_common() -> None:
    ((one, first),) = load_acls(workspace="A.b_c").items()
    ((other, second),) = load_acls(workspace="local").items()
    assert (one, other) == ("watcher-A.b_c", "watcher-local")
    read = {topic for topic, operation in shared(first, second) if operation != "write"}
    assert read == {TENANT_CLUSTERS}, "its rows name a namespace by a digest, with its uid"


def test_engine_clusters_when_there_are_two_then_their_agents_share_the_fleet_and_dead_letters_alone() -> None:
    here, there = load_acls(engine_cluster="eu-2"), load_acls(engine_cluster="default")
    assert [*here, *there] == ["agent-eu-2", "provisioner-eu-2", "agent-default", "provisioner-default"]
    for first in here.values():
        for second in there.values():
            assert shared(first, second) <= {("gitops.fleet", "read"), ("gitops.dead-letters", "write")}


def test_groups_when_declared_then_they_are_those_that_services_join() -> None:
    connect = dict(line.split("=", 1) for line in CONNECT.read_text().splitlines() if line and line[0] != "#")
    groups = {name: set(rights.groups) for name, rights in RIGHTS.items()}
    assert groups == {
        "watcher-local": {STATUSES.consumer_group("local"), OBJECTS.consumer_group("local")},
        "planner": {PLANNER_GROUP},
        "agent-default": {AgentSettings.model_construct().consumer_group},
        "provisioner-default": {ProvisionerSettings.model_construct().consumer_group},
        "connect": {connect["group.id"]},
        "target-provisioner": {PROVISIONER_GROUP},
    }


def test_provisioner_of_others_when_declared_then_it_may_read_the_topic_of_pending_claims_and_nothing_else() -> None:
    assert RIGHTS["target-provisioner"].topics == {PROVISIONING: ("read",)}


def test_topic_when_written_then_by_one_service_only_but_for_dead_letters_and_observations() -> None:
    writers: dict[str, set[str]] = {}
    for name, rights in RIGHTS.items():
        for topic in (topic for topic, operations in rights.topics.items() if "write" in operations):
            writers.setdefault(topic, set()).add(name)
    assert writers.pop("gitops.dead-letters") == {"watcher-local", "planner", "agent-default"}
    assert writers.pop(REPORTS) == {"agent-default", "provisioner-default"}
    assert {topic: len(names) for topic, names in writers.items()} == dict.fromkeys(writers, 1)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "watcher: {topics: {'*': [read]}}",
        "watcher: {topics: {'gitops.*': [read]}}",
        "watcher: {topic_prefixes: {'': [read]}}",
        "watcher: {groups: {'*': [read]}}",
        "watcher: {group_prefixes: {some: [read]}}",
        "'*': {}",
        "watcher: {topics: {a: [all]}}",
        "watcher: {topics: {a: [alter]}}",
        "watcher: {groups: {a: [delete]}}",
        "watcher: {cluster: [alter]}",
    ],
)
def test_declaration_when_malformed_or_too_wide_then_the_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "acls.yaml"
    path.write_text(text)
    with pytest.raises(InvalidConfiguration, match=r"acls\.yaml"):
        load_acls(path)
