"""With a service's own credentials, what it must not do is refused by the real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pydantic import SecretStr
from typer.testing import CliRunner

from devstack.harness.hosted import HostedStack
from services.cli.installation import workspaces
from services.cli.kafka import topics
from services.common.errors import NoPermission
from services.common.kafka import (
    COMMANDS,
    DEAD_LETTERS,
    FLEET,
    FLEET_ORDERS,
    OBJECTS,
    PLACEMENT,
    PROVISIONING,
    TENANT_CLUSTERS,
    WORKSPACE,
    check_login,
    client_properties,
    described_partitions,
    engine_topic,
    objects_topic,
    observations_topic,
    workspace_topic,
)
from services.common.settings import BrokerSettings
from services.common.startup import await_dependency

DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
SECONDS = 45
Answer = TypeVar("Answer")
OWN_GROUP = {
    "watcher-local": "gitops-watcher-local",
    "planner": "gitops-planner",
    "agent-default": "gitops-agent-default",
    "connect": "gitops-connect",
    "target-provisioner": "gitops-target-provisioner",
}
OWN_STATUSES, OWN_OBJECTS = workspace_topic("local"), objects_topic("local")
ENGINE, REPORTS = engine_topic("default"), observations_topic("default")
TOPICS = (
    *(COMMANDS, REPORTS, ENGINE, FLEET, FLEET_ORDERS, PLACEMENT, WORKSPACE, OWN_STATUSES, OBJECTS, OWN_OBJECTS),
    *(PROVISIONING, TENANT_CLUSTERS, DEAD_LETTERS, "gitops.connect.offsets", "gitops.connect.configs"),
)

MAY_WRITE = {
    "watcher-local": {COMMANDS, DEAD_LETTERS},
    "planner": {DEAD_LETTERS},
    "agent-default": {REPORTS, DEAD_LETTERS},
    "target-provisioner": set[str](),
}
MAY_READ = {
    "watcher-local": [OWN_STATUSES, OWN_OBJECTS, TENANT_CLUSTERS],
    "planner": [COMMANDS, REPORTS, FLEET_ORDERS],
    "agent-default": [ENGINE, FLEET],
    "target-provisioner": [PROVISIONING],
}


@pytest.fixture(scope="module")
def neighbour(infrastructure: HostedStack) -> BrokerSettings:
    """The principal of the watchers of another workspace cluster."""
    given = {"KAFKA_PASSWORD_WATCHER_NEIGHBOUR": "guarded"}
    added = CliRunner().invoke(workspaces.app, ["add", "neighbour"], env=infrastructure.environment | given)
    assert added.exit_code == 0, added.output
    settings = {name.lower(): value for name, value in infrastructure.environment_of("agent").items()}
    return BrokerSettings(
        **settings | {"kafka_username": "watcher-neighbour", "kafka_password": given.popitem()[1]},
    )


@pytest.fixture
def login(infrastructure: HostedStack) -> Callable[[str], BrokerSettings]:
    """A principal's own way to the brokers."""

    def login(service: str) -> BrokerSettings:
        settings = {name.lower(): value for name, value in infrastructure.environment_of("agent").items()}
        password = infrastructure.state.secrets()[f"kafka-{service}"]
        return BrokerSettings(**settings | {"kafka_username": service, "kafka_password": password})

    return login


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("service", MAY_WRITE)
def test_topic_when_a_service_writes_it_then_only_what_is_declared_is_accepted(
    login: Callable[[str], BrokerSettings], service: str, topic: str
) -> None:
    assert _may_write(login(service), topic) == (topic in MAY_WRITE[service])


@pytest.mark.parametrize("topic", [COMMANDS, REPORTS, FLEET_ORDERS, DEAD_LETTERS])
def test_topic_when_connect_writes_what_is_a_service_s_then_it_is_refused(
    login: Callable[[str], BrokerSettings], topic: str
) -> None:
    assert not _may_write(login("connect"), topic)


def _may_write(brokers: BrokerSettings, topic: str) -> bool:
    outcome: list[KafkaError | None] = []
    producer = Producer(client_properties(brokers) | {"message.timeout.ms": SECONDS * 1000, "enable.idempotence": True})
    try:
        producer.produce(topic, b"not a message", on_delivery=lambda error, _: outcome.append(error))
        producer.flush(SECONDS)
    except KafkaException as error:
        outcome.append(error.args[0])
    assert outcome
    denied = {error.code() for error in outcome if error}
    assert denied <= DENIED | {KafkaError._PURGE_QUEUE}  # of a message, if who may write nothing may not even begin
    return not denied


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("service", MAY_READ)
def test_topic_when_a_service_reads_it_then_only_what_is_declared_is_given(
    login: Callable[[str], BrokerSettings], service: str, topic: str
) -> None:
    assert _may_read(login(service), OWN_GROUP[service], topic) == (topic in MAY_READ[service])


def _may_read(brokers: BrokerSettings, group: str, topic: str) -> bool:
    consumer = Consumer(client_properties(brokers) | {"group.id": group, "enable.partition.eof": True})
    try:
        error = _first_answer(consumer, topic)
    finally:
        consumer.close()
    assert error is None or error.code() in DENIED | {KafkaError._PARTITION_EOF}
    return error is None or error.code() not in DENIED


def test_statuses_when_a_watcher_reads_them_then_only_those_of_its_own_workspace_are_given(
    login: Callable[[str], BrokerSettings], neighbour: BrokerSettings
) -> None:
    own, other = workspace_topic("neighbour"), OWN_STATUSES
    assert _may_read(neighbour, "gitops-watcher-neighbour", own)
    assert not _may_read(neighbour, "gitops-watcher-neighbour", other)
    assert not _may_read(neighbour, "gitops-watcher-neighbour", WORKSPACE)
    assert not _may_read(login("watcher-local"), OWN_GROUP["watcher-local"], own)


def test_child_objects_when_a_watcher_reads_them_then_only_those_of_its_own_workspace_are_given(
    login: Callable[[str], BrokerSettings], neighbour: BrokerSettings
) -> None:
    own, other = objects_topic("neighbour"), OWN_OBJECTS
    assert _may_read(neighbour, "gitops-watcher-neighbour", own)
    assert not _may_read(neighbour, "gitops-watcher-neighbour", other)
    assert not _may_read(neighbour, "gitops-watcher-neighbour", OBJECTS)
    assert not _may_read(login("watcher-local"), OWN_GROUP["watcher-local"], own)
    assert not _may_write(login("watcher-local"), other)


def test_group_when_the_watcher_of_another_workspace_joins_then_it_is_refused(neighbour: BrokerSettings) -> None:
    consumer = Consumer(client_properties(neighbour) | {"group.id": OWN_GROUP["watcher-local"]})
    try:
        assert not _joins(consumer, workspace_topic("neighbour"))
    finally:
        consumer.close()


def _first_answer(consumer: Consumer, topic: str) -> KafkaError | None:
    """What a fetch of the topic's beginning ends with; of a topic that may not be described nothing is fetched."""
    described: KafkaError | None = consumer.list_topics(topic, timeout=SECONDS).topics[topic].error
    if described is not None:
        return described
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(SECONDS)
    assert message is not None
    return message.error()


@pytest.mark.parametrize("group", [*OWN_GROUP.values(), "anything"])
@pytest.mark.parametrize("service", MAY_READ)
def test_group_when_a_service_joins_then_only_its_own_takes_it(
    login: Callable[[str], BrokerSettings], service: str, group: str
) -> None:
    consumer = Consumer(client_properties(login(service)) | {"group.id": group})
    try:
        joined = _joins(consumer, next(iter(MAY_READ[service])))
    finally:
        consumer.close()
    assert joined == (group == OWN_GROUP[service])


def _joins(consumer: Consumer, topic: str) -> bool:
    """Whether the group takes the consumer; False if the broker says that it may not."""
    assigned: list[TopicPartition] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + SECONDS
    while not assigned and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and (error := message.error()) is not None:
            assert error.code() in DENIED, error
            return False
    assert assigned
    return True


@pytest.fixture(scope="module")
def elsewhere(infrastructure: HostedStack) -> BrokerSettings:
    """The principal of the agents of another engine cluster."""
    given = {"KAFKA_PASSWORD_AGENT_ELSEWHERE": "guarded"}
    for command in ("apply", "acls"):
        typed = [command, "--engine-cluster", "elsewhere"]
        made = CliRunner().invoke(topics.app, typed, env=infrastructure.environment | given)
        assert made.exit_code == 0, made.output
    settings = {name.lower(): value for name, value in infrastructure.environment_of("agent").items()}
    return BrokerSettings(
        **settings | {"kafka_username": "agent-elsewhere", "kafka_password": given.popitem()[1]},
    )


def test_rows_when_an_agent_reads_them_then_only_those_of_its_own_cluster_are_given(
    login: Callable[[str], BrokerSettings], elsewhere: BrokerSettings
) -> None:
    here, own = "agent-default", engine_topic("elsewhere")
    assert _may_read(elsewhere, "gitops-agent-elsewhere", own)
    assert not _may_read(elsewhere, "gitops-agent-elsewhere", ENGINE)
    assert not _may_read(login(here), OWN_GROUP[here], own)
    assert not _may_write(elsewhere, own)


def test_reports_when_an_agent_writes_them_then_only_those_of_its_own_cluster_are_accepted(
    login: Callable[[str], BrokerSettings], elsewhere: BrokerSettings
) -> None:
    own = observations_topic("elsewhere")
    assert _may_write(elsewhere, own)
    assert not _may_write(elsewhere, REPORTS)
    assert not _may_write(login("agent-default"), own)
    assert _may_read(login("planner"), OWN_GROUP["planner"], own)
    assert not _may_read(login("agent-default"), OWN_GROUP["agent-default"], own)


def test_right_when_it_is_declared_no_more_then_it_is_kept_as_long_as_the_operator_says_so(
    infrastructure: HostedStack, elsewhere: BrokerSettings, tmp_path: Path
) -> None:
    former = tmp_path / "acls.yaml"
    former.write_text(f"{{}}\n---\n{{}}\n---\nagent-<engine-cluster>: {{topics: {{{COMMANDS}: [write]}}}}\n")

    def grant(*options: str) -> None:
        typed = ["acls", "--engine-cluster", "elsewhere", *options]
        made = CliRunner().invoke(topics.app, typed, env=infrastructure.environment)
        assert made.exit_code == 0, made.output

    own = observations_topic("elsewhere")
    for options in (["--from", str(former), "--keep"], ["--keep"]):
        grant(*options)
        assert (_may_write(elsewhere, COMMANDS), _may_write(elsewhere, own)) == (True, True)
    grant()
    assert (_may_write(elsewhere, COMMANDS), _may_write(elsewhere, own)) == (False, True)


def answered(ask: Callable[..., Answer], *arguments: object) -> Answer:
    """Asks again if the brokers do not answer in time, as on a busy machine."""
    return await_dependency("brokers", partial(ask, *arguments), SECONDS)


def test_topics_of_engine_clusters_when_a_planner_asks_then_it_is_told_of_them_whether_they_are_there_and_of_no_others(
    login: Callable[[str], BrokerSettings], elsewhere: BrokerSettings
) -> None:
    there, missing = engine_topic("elsewhere"), engine_topic("nowhere")
    asked = (ENGINE, there, missing, FLEET, OWN_STATUSES)
    told = {ENGINE: 6, there: 6, missing: 0, FLEET: None, OWN_STATUSES: None}
    assert answered(described_partitions, login("planner"), asked) == told
    assert answered(described_partitions, elsewhere, (there, ENGINE, missing)) == {
        there: 6, ENGINE: None, missing: None,
    }  # fmt: skip


def test_group_when_the_agent_of_another_cluster_joins_then_it_is_refused(elsewhere: BrokerSettings) -> None:
    consumer = Consumer(client_properties(elsewhere) | {"group.id": OWN_GROUP["agent-default"]})
    try:
        assert not _joins(consumer, engine_topic("elsewhere"))
    finally:
        consumer.close()


GRANT = AclBinding(
    ResourceType.TOPIC, ENGINE, ResourcePatternType.LITERAL, "User:watcher-local", "*",
    AclOperation.READ, AclPermissionType.ALLOW,
)  # fmt: skip
ADMINISTRATION: dict[str, Callable[[AdminClient, str], dict[Any, Any]]] = {
    "grant itself a right": lambda admin, _: admin.create_acls([GRANT]),
    "create a topic": lambda admin, _: admin.create_topics([NewTopic("gitops.mine", 1, 1)]),
    "delete a topic": lambda admin, topic: admin.delete_topics([topic]),
    "delete records": lambda admin, topic: admin.delete_records([TopicPartition(topic, 0, 1)]),
}


@pytest.mark.parametrize("what", ADMINISTRATION)
@pytest.mark.parametrize("service", MAY_READ)
def test_brokers_when_a_service_administers_them_then_it_is_refused(
    login: Callable[[str], BrokerSettings], service: str, what: str
) -> None:
    admin = AdminClient(client_properties(login(service)))
    (outcome,) = ADMINISTRATION[what](admin, next(iter(MAY_READ[service]))).values()
    with pytest.raises(KafkaException) as refusal:
        outcome.result(timeout=SECONDS)
    assert refusal.value.args[0].code() in DENIED


@pytest.mark.parametrize("change", [{"kafka_password": SecretStr("guess")}, {"kafka_username": "nobody"}])
def test_brokers_when_the_credentials_are_wrong_then_nobody_is_let_in(
    login: Callable[[str], BrokerSettings], change: dict[str, Any]
) -> None:
    with pytest.raises(NoPermission, match="refuses KAFKA_USERNAME and KAFKA_PASSWORD"):
        answered(check_login, login("watcher-local").model_copy(update=change))
