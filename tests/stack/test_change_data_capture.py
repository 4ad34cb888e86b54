"""What the connector promises to those who read gitops.engine, gitops.fleet and the statuses, on the real one."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.schema_registry import SchemaRegistryClient
from typer.testing import CliRunner

from devstack.harness.hosted import HostedStack
from services.cli.dead_letters import dlq
from services.cli.installation import connector, workspaces
from services.cli.installation.connector import DEFINITION
from services.cli.kafka import topics
from services.cli.rebuild.streamed_topics import PlacementTopic, StreamedTopics, claim_rows
from services.cli.rebuild.table_comparison import Comparison, compare
from services.common.avro import (
    COMPILED_SUBJECTS,
    SUBJECTS,
    AvroCodec,
    SchemaRegistry,
    decode_record,
    value_subject,
)
from services.common.kafka import (
    DEAD_LETTERS,
    FLEET,
    OBJECTS,
    PROVISIONING,
    TENANT_CLUSTERS,
    WORKSPACE,
    PartitionReader,
    Publisher,
    WholeTopicReader,
    engine_topic,
    load_topics,
    objects_topic,
    workspace_topic,
)
from services.common.kafka import TopicPartition as Source
from services.common.message_log import row_of
from services.common.messages import DeadLetter, PendingClaim, TenantClusters, WorkspaceObject
from services.planner.domain.fleet.placement.assignments import TenantPin, WorkspaceAssignment
from services.planner.domain.fleet.pools.pool_rows import EnginePool
from services.planner.domain.fleet.rows import EngineClusterRow

ARRIVAL_SECONDS = 45
COMPACTION_SECONDS = 90
GENERATIONS, PER_GENERATION = 10, 100
"""How often rows come and go, and how many messages that is each time."""
ENGINE_PARTITIONS, PARTITIONS = 6, 12
ENGINE = engine_topic("default")
WORKSPACE_PARTITIONS = 3
LOCAL, CHILDREN = workspace_topic("local"), objects_topic("local")
TRACE = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
"""Some 5 ms where nothing else runs; the limit says that nothing waits for a timer, on a crowded machine too."""

UPSERT_ENGINE = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at, engine_cluster)
VALUES (%(instance)s, 'Application', 'argocd', %(name)s, 'local', 'team-a', 'lane-1', 1,
        'present', '{"a":"ü"}', %(digest)s, %(trace)s, '2026-01-02T03:04:05.678901Z', now(), %(cluster)s)
    ON CONFLICT (engine_instance_id, kind, namespace, name, engine_cluster) DO UPDATE SET digest = EXCLUDED.digest
"""
INSERT_WORKSPACE = """
INSERT INTO workspace_statuses (workspace, namespace, kind, name, uid, generation, status, release_finalizer,
                                 digest, trace_id, seen_at, updated_at)
VALUES (%(workspace)s, 'team-a', 'GitOpsDeployment', %(name)s, 'uid-1', 7, '{}', false, 'd1', %(trace)s, now(), now())
"""

UPSERT_CHILD = """
INSERT INTO workspace_objects (workspace, namespace, kind, name, desired, uid, owner_api_version, owner_kind,
                               owner_name, owner_uid, manifest, digest, revision, trace_id, seen_at, updated_at,
                               live_version)
VALUES (%(workspace)s, 'team-a', 'GitOpsDeployment', %(name)s, 'present', '', 'v', 'k', 'o', 'uid-o',
        '{"spec":"ü"}', 'd1', %(revision)s, %(trace)s, '2026-01-02T03:04:05.678901Z', now(), 'not told')
    ON CONFLICT (workspace, namespace, kind, name) DO UPDATE SET revision = EXCLUDED.revision
"""

UPSERT_CLAIM = """
INSERT INTO pending_claims (workspace, namespace, name, uid, class_name, provisioner, parameters, generation, state,
                            created_at)
VALUES ('local', 'team-a', %(name)s, 'uid-1', 'space', 'example.com/ours', '{"size":"ü"}', 1, %(state)s, now())
    ON CONFLICT (workspace, namespace, name, uid) DO UPDATE SET state = EXCLUDED.state
"""

INSERT_TENANT = """
WITH tenant AS (INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)
                VALUES (gen_random_uuid(), 'local', %(name)s, 0, %(instance)s) RETURNING id)
INSERT INTO tenant_clusters (tenant_id, namespace_digest, engine_clusters) SELECT id, %(name)s, 'default' FROM tenant
"""

ADD_CLUSTER = "INSERT INTO engine_clusters VALUES (%s, '', now(), 'active', now()) ON CONFLICT DO NOTHING"
INSERT_POOL = "INSERT INTO engine_pools VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
ADD_INSTANCE = """
INSERT INTO engine_instances (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                              dedicated_to, ring, capacity, ordered_at)
VALUES (%(instance)s, %(instance)s, 'accepting', now(), 'argocd', %(cluster)s, '', 'shared', '', 'general', 7, now())
    ON CONFLICT DO NOTHING
"""
UPSERT_INSTANCE = """
INSERT INTO engine_instances (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                              dedicated_to, ring, capacity, ordered_at)
VALUES (%(name)s, %(name)s, %(state)s, '2026-01-02T03:04:05.678901Z', 'argocd', 'default', '', 'dedicated', 'team',
        'canary', 7, '2026-01-02T03:04:06Z')
    ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state
"""


@dataclass(frozen=True)
class Event:
    """A message of one of the topics, decoded."""

    topic: str
    partition: int
    key: dict[str, Any]
    value: dict[str, Any] | None
    headers: dict[str, bytes | None]
    raw_key: bytes = b""


class Log:
    """The topics from now on."""

    def __init__(self, bootstrap_servers: str, registry: SchemaRegistry) -> None:
        """Connects, and starts at the present end of every partition."""
        self._brokers, self._registry = bootstrap_servers, registry
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap_servers, "group.id": str(uuid.uuid4()), "fetch.wait.max.ms": 5}
        )
        self.consumer.assign(
            [self._end(WORKSPACE, number) for number in range(PARTITIONS)]
            + [self._end(ENGINE, number) for number in range(ENGINE_PARTITIONS)]
            + [self._end(OBJECTS, number) for number in range(PARTITIONS)]
            + [self._end(topic, number) for topic in (LOCAL, CHILDREN) for number in range(WORKSPACE_PARTITIONS)]
        )

    def take(self, count: int, of: str) -> list[Event]:
        """The next ``count`` events whose key has the name ``of``; whatever else arrives is an error."""
        events: list[Event] = []
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while len(events) < count and time.monotonic() < deadline:
            message = self.consumer.poll(0.1)
            if message is not None:
                events.append(self._decode(message))
        assert [event.key["name"] for event in events] == [of] * count
        return events

    def read_until(self, name: str) -> None:
        """Read on to the tombstone under the key of this name."""
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while time.monotonic() < deadline:
            message = self.consumer.poll(0.1)
            if message is not None and (event := self._decode(message)).key["name"] == name and event.value is None:
                return
        raise AssertionError(f"no tombstone of {name}")

    def names_of_instance(self, instance: str) -> list[str]:
        """The name in the key of every message about ``instance`` that gitops.engine still holds."""
        source = Source(ENGINE, (_java_hash(instance) & 0x7FFFFFFF) % ENGINE_PARTITIONS)
        with PartitionReader(self._brokers, "tests") as reader:
            messages = reader.read_messages(reader.end_offsets([source]))
            keys = [decode_record(self._registry, message.key) for message in messages]
        return [key["name"] for key in keys if key["engine_instance_id"] == instance]

    def states_of_instance(self, instance: str) -> list[dict[str, Any]]:
        """The rows of an engine instance that gitops.fleet still holds."""
        with PartitionReader(self._brokers, "tests") as reader:
            messages = reader.read_messages(reader.end_offsets([Source(FLEET, 0)]))
            rows = [decode_record(self._registry, message.value) for message in messages]
        return [row for row in rows if row["id"] == instance]

    def follow(self, topic: str, partitions: int = WORKSPACE_PARTITIONS) -> None:
        """Read this topic too, from its beginning."""
        self.consumer.incremental_assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def nothing_follows(self, seconds: float = 0.5) -> bool:
        """Whether no event arrives for a while."""
        return self.consumer.poll(seconds) is None

    def _decode(self, message: Message) -> Event:
        assert message.error() is None
        value = message.value()
        return Event(
            str(message.topic()),
            int(message.partition() or 0),
            decode_record(self._registry, message.key()),
            None if value is None else decode_record(self._registry, value),
            dict(message.headers() or []),
            message.key() or b"",
        )

    def _end(self, topic: str, number: int) -> TopicPartition:
        partition = TopicPartition(topic, number)
        partition.offset = self.consumer.get_watermark_offsets(partition, timeout=10)[1]
        return partition


@pytest.fixture
def log(infrastructure: HostedStack) -> Iterator[Log]:
    """The topics from the beginning of the test."""
    environment = infrastructure.environment
    log = Log(environment["KAFKA_BOOTSTRAP_SERVERS"], SchemaRegistry(environment["SCHEMA_REGISTRY_URL"]))
    yield log
    log.consumer.close()


@pytest.fixture
def planner(infrastructure: HostedStack) -> Iterator[psycopg.Connection]:
    """The database as the planner writes it, each statement a transaction."""
    with psycopg.connect(infrastructure.environment["DATABASE_URL"], autocommit=True) as connection:
        yield connection


@pytest.fixture
def owner(infrastructure: HostedStack) -> Iterator[psycopg.Connection]:
    """The database as its owner."""
    with psycopg.connect(infrastructure.environment["DATABASE_OWNER_URL"], autocommit=True) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """A resource's name that no other test uses."""
    return f"r-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def upsert(planner: psycopg.Connection, name: str) -> Callable[..., None]:
    """Write the row ``name`` of engine_resources."""

    def upsert(instance: str = "engine-a", digest: str = "d1", cluster: str = "default") -> None:
        write_row(planner, instance, name, digest, cluster)

    return upsert


def write_row(
    planner: psycopg.Connection, instance: str, name: str, digest: str = "d1", cluster: str = "default"
) -> None:
    """The row of an object, and of its instance and cluster if there are none."""
    planner.execute(ADD_CLUSTER, [cluster])
    planner.execute(ADD_INSTANCE, {"instance": instance, "cluster": cluster})
    row = {"instance": instance, "name": name, "digest": digest, "trace": TRACE, "cluster": cluster}
    planner.execute(UPSERT_ENGINE, row)


def test_engine_row_when_inserted_then_it_arrives_flat_with_its_key_and_trace(
    log: Log, upsert: Callable[..., None], name: str
) -> None:
    upsert()
    (event,) = log.take(1, of=name)
    assert event.topic == ENGINE
    assert event.key == {"engine_instance_id": "engine-a", "kind": "Application", "namespace": "argocd", "name": name}
    assert event.value is not None
    assert event.value | {"updated_at": None} == {
        **event.key,
        "workspace": "local",
        "tenant_namespace": "team-a",
        "lane": "lane-1",
        "wave": 1,
        "desired": "present",
        "manifest": '{"a":"ü"}',
        "digest": "d1",
        "trace_id": TRACE,
        "seen_at": "2026-01-02T03:04:05.678901Z",
        "updated_at": None,
        "__deleted": "false",
    }
    assert event.headers == {"traceparent": TRACE.encode()}


@pytest.mark.parametrize("instance", ["engine-a", "engine-b", "gitops-service-argocd", "Ünïcode"])
def test_engine_row_when_changed_in_any_way_then_it_stays_on_the_partition_of_its_instance(
    log: Log, upsert: Callable[..., None], planner: psycopg.Connection, name: str, instance: str
) -> None:
    upsert(instance)
    upsert(instance, "d2")
    planner.execute("DELETE FROM engine_resources WHERE name = %s", (name,))
    partitions = {event.partition for event in log.take(3, of=name)}
    assert partitions == {(_java_hash(instance) & 0x7FFFFFFF) % ENGINE_PARTITIONS}


def test_engine_row_when_its_instance_is_of_a_cluster_that_was_just_added_then_all_of_it_is_on_that_clusters_topic(
    log: Log, infrastructure: HostedStack, upsert: Callable[..., None], planner: psycopg.Connection, name: str
) -> None:
    cluster = f"cluster-{name}"
    made = CliRunner(env=infrastructure.environment).invoke(topics.app, ["apply", "--engine-cluster", cluster])
    assert made.exit_code == 0, made.output
    log.follow(engine_topic(cluster), ENGINE_PARTITIONS)
    for digest in ("d1", "d2"):
        upsert(f"engine-{name}", digest, cluster)
    planner.execute("DELETE FROM engine_resources WHERE name = %s", (name,))
    inserted, updated, tombstone = events = log.take(3, of=name)
    assert {event.topic for event in events} == {engine_topic(cluster)}
    assert len({(event.raw_key, event.partition) for event in events}) == 1
    assert [(event.value or {}).get("digest") for event in (inserted, updated)] == ["d1", "d2"]
    assert tombstone.value is None
    assert log.nothing_follows()


def test_engine_row_when_deleted_then_a_tombstone_under_its_key_is_all_that_follows(
    log: Log, upsert: Callable[..., None], planner: psycopg.Connection, name: str
) -> None:
    upsert()
    planner.execute("DELETE FROM engine_resources WHERE name = %s", (name,))
    insertion, tombstone = log.take(2, of=name)
    assert (tombstone.value, tombstone.headers) == (None, {})
    assert (tombstone.raw_key, tombstone.partition) == (insertion.raw_key, insertion.partition)
    assert log.nothing_follows()


def test_engine_row_when_deleted_then_it_is_none_of_those_that_its_topic_holds(
    log: Log, infrastructure: HostedStack, upsert: Callable[..., None], planner: psycopg.Connection, name: str
) -> None:
    environment = infrastructure.environment
    registry = SchemaRegistry(environment["SCHEMA_REGISTRY_URL"])
    streamed = StreamedTopics(environment["KAFKA_BOOTSTRAP_SERVERS"], registry)
    upsert()
    log.take(1, of=name)
    assert name in {key[-1] for key in streamed.engine_digests()}
    planner.execute("DELETE FROM engine_resources WHERE name = %s", (name,))
    log.take(1, of=name)
    assert name not in {key[-1] for key in streamed.engine_digests()}


def test_placement_when_laid_down_and_taken_back_then_its_topic_tells_the_newest_of_each(
    infrastructure: HostedStack, upsert: Callable[..., None], planner: psycopg.Connection, name: str
) -> None:
    """What a rebuild fills an empty database with."""
    environment = infrastructure.environment
    streamed = StreamedTopics(
        environment["KAFKA_BOOTSTRAP_SERVERS"], SchemaRegistry(environment["SCHEMA_REGISTRY_URL"])
    )
    upsert()
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    planner.execute("INSERT INTO workspace_assignments VALUES (%s, 'eu', 'early', %s)", (name, at))
    planner.execute("INSERT INTO tenant_pins SELECT %s, 'web', min(id), %s FROM engine_instances", (name, at))
    planner.execute("UPDATE workspace_assignments SET ring = '' WHERE workspace = %s", (name,))
    ((instance,),) = planner.execute("SELECT engine_instance_id FROM tenant_pins WHERE workspace = %s", (name,))
    cluster, drained = (EngineClusterRow(name, "eu", at, state, at) for state in ("active", "draining"))
    planner.execute("INSERT INTO engine_clusters VALUES (%s, %s, %s, %s, %s)", astuple(cluster))
    planner.execute("UPDATE engine_clusters SET state = 'draining' WHERE id = %s", (name,))
    pool = EnginePool(name, "early", 1, 9, 2, 2500, "3.2.11", "", at, at, instance, "why")
    planner.execute(INSERT_POOL, astuple(pool))

    def until(is_told: Callable[[PlacementTopic], bool]) -> None:
        deadline = time.monotonic() + ARRIVAL_SECONDS
        while not is_told(told := streamed.placement()):
            assert time.monotonic() < deadline, told

    assigned, pin = WorkspaceAssignment(name, "eu", "", at), TenantPin(name, "web", instance, at)
    until(lambda told: assigned in told.assignments and pin in told.pins)
    until(lambda told: drained in told.clusters and pool in told.pools)
    planner.execute("DELETE FROM workspace_assignments WHERE workspace = %s", (name,))
    planner.execute("DELETE FROM tenant_pins WHERE workspace = %s", (name,))
    planner.execute("DELETE FROM engine_pools WHERE engine_cluster = %s", (name,))
    until(lambda told: name in told.unassigned and (name, "web") in told.unpinned and pool.key in told.removed_pools)
    told = streamed.placement()
    assert name not in {each.workspace for each in (*told.assignments, *told.pins)}
    assert pool.key not in {each.key for each in told.pools}


def test_pending_claim_when_its_row_changes_and_goes_then_its_topic_tells_in_one_partition_and_holds_no_key(
    log: Log, infrastructure: HostedStack, planner: psycopg.Connection, name: str
) -> None:
    log.follow(PROVISIONING)
    for state in ("wanted", "withdrawn"):
        planner.execute(UPSERT_CLAIM, {"name": name, "state": state})
    events = log.take(2, of=name)
    environment = infrastructure.environment
    registry = SchemaRegistry(environment["SCHEMA_REGISTRY_URL"])
    streamed = StreamedTopics(environment["KAFKA_BOOTSTRAP_SERVERS"], registry)
    key = ("local", "team-a", name, "uid-1")
    with psycopg.connect(environment["DATABASE_OWNER_URL"]) as owner:
        assert compare(claim_rows(owner), streamed.claim_contents()) == Comparison(1, 0, 0, 0)
    assert [*streamed.unknown_claims({})] == [key]
    assert streamed.unknown_claims({key: ""}) == {}
    planner.execute("DELETE FROM pending_claims WHERE name = %s", (name,))
    first, second, tombstone = *events, *log.take(1, of=name)
    assert {event.topic for event in (first, second, tombstone)} == {PROVISIONING}
    assert len({event.partition for event in (first, second, tombstone)}) == 1
    read = [PendingClaim.from_record(event.value or {}) for event in (first, second)]
    assert [(each.identity, each.state, each.parameters, each.deleted) for each in read] == [
        (key, state, '{"size":"ü"}', False) for state in ("wanted", "withdrawn")
    ]
    assert tombstone.value is None
    assert PendingClaim.from_tombstone(tombstone.key).identity == read[0].identity
    assert streamed.claim_contents() == {}


def test_clusters_of_a_tenant_when_they_change_and_the_tenant_goes_then_the_topic_tells_under_the_tenants_key(
    infrastructure: HostedStack, planner: psycopg.Connection, name: str
) -> None:
    environment = infrastructure.environment
    decode = partial(row_of, TenantClusters, SchemaRegistry(environment["SCHEMA_REGISTRY_URL"]))
    reader = WholeTopicReader(environment["KAFKA_BOOTSTRAP_SERVERS"], TENANT_CLUSTERS, "tests", decode, "tests")
    told: list[TenantClusters] = []
    planner.execute(ADD_CLUSTER, ["default"])
    planner.execute(ADD_INSTANCE, {"instance": "engine-a", "cluster": "default"})
    planner.execute(INSERT_TENANT, {"name": name, "instance": "engine-a"})
    planner.execute("UPDATE tenant_clusters SET engine_clusters = 'default,north' WHERE namespace_digest = %s", (name,))
    planner.execute("DELETE FROM tenants WHERE namespace = %s", (name,))
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while not any(each.deleted for each in told):
        assert time.monotonic() < deadline, told
        told += [each for each in reader.read_news() if each.namespace_digest in {name, ""}]
    reader.close()
    first, second, gone = told
    assert [(each.namespace_digest, each.clusters) for each in (first, second)] == [
        (name, {"default"}),
        (name, {"default", "north"}),
    ]
    assert {each.tenant_id for each in (second, gone)} == {first.tenant_id}


@pytest.fixture
def hasty_compaction(infrastructure: HostedStack) -> Iterator[None]:
    """The brokers compact what is older than a second, and do not wait between two rounds."""
    admin = AdminClient({"bootstrap.servers": infrastructure.environment["KAFKA_BOOTSTRAP_SERVERS"]})
    declared = load_topics(engine_cluster="default")[0].config
    hasty = {"segment.ms": "500", "max.compaction.lag.ms": "500", "delete.retention.ms": "0"}
    hasty["min.cleanable.dirty.ratio"] = "0"

    def configure(kind: ResourceType, name: str, settings: dict[str, str | None]) -> None:
        operations = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
        entries = [
            ConfigEntry(key, value, incremental_operation=operations[value is None]) for key, value in settings.items()
        ]
        for done in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
            done.result(timeout=10)

    configure(ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
    configure(ResourceType.TOPIC, ENGINE, {**hasty})
    yield
    configure(ResourceType.TOPIC, ENGINE, {key: declared.get(key) for key in hasty})
    configure(ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": None})


@pytest.mark.usefixtures("hasty_compaction")
def test_engine_topic_when_rows_come_and_go_for_ever_then_it_does_not_grow(
    log: Log, planner: psycopg.Connection, name: str
) -> None:
    """Years of it in seconds: of each generation neither the rows nor the tombstones stay."""
    deadline, generation, held = time.monotonic() + COMPACTION_SECONDS, 0, Counter[int]()
    while generation < GENERATIONS or held[0] or held.total() > 4 * PER_GENERATION:
        assert time.monotonic() < deadline, f"after {generation} generations: {held}"
        rows = [f"{name}-{generation}-{number}" for number in range(PER_GENERATION // 2)]
        with planner.transaction():
            for row in rows:
                write_row(planner, name, row)
            planner.execute("DELETE FROM engine_resources WHERE engine_instance_id = %s", (name,))
        log.read_until(rows[-1])
        generation += 1
        held = Counter(int(found.rpartition("-")[0].rpartition("-")[2]) for found in log.names_of_instance(name))
    assert generation >= GENERATIONS


@pytest.mark.parametrize(("workspace", "topic"), [("local", LOCAL), ("never-added", WORKSPACE)])
def test_workspace_row_when_deleted_then_a_tombstone_follows_on_the_same_partition_of_its_workspaces_topic(
    log: Log, planner: psycopg.Connection, name: str, workspace: str, topic: str
) -> None:
    planner.execute(INSERT_WORKSPACE, {"workspace": workspace, "name": name, "trace": TRACE})
    planner.execute("DELETE FROM workspace_statuses WHERE name = %s", (name,))
    insertion, deletion, tombstone = log.take(3, of=name)
    assert {event.topic for event in (insertion, deletion, tombstone)} == {topic}
    assert insertion.key == {"workspace": workspace, "namespace": "team-a", "kind": "GitOpsDeployment", "name": name}
    assert (insertion.value or {})["generation"] == 7
    assert insertion.headers == {"traceparent": TRACE.encode()}
    assert (deletion.value or {})["__deleted"] == "true"
    assert tombstone.value is None
    assert len({event.partition for event in (insertion, deletion, tombstone)}) == 1


@pytest.mark.parametrize(
    ("workspace", "topic"), [("local", CHILDREN), ("never-added", OBJECTS)], ids=["added", "never added"]
)
def test_child_object_when_its_row_changes_and_goes_then_its_workspaces_topic_tells_once_in_one_partition(
    log: Log, planner: psycopg.Connection, name: str, workspace: str, topic: str
) -> None:
    row = {"workspace": workspace, "name": name, "trace": TRACE}
    for revision in (1, 2):
        planner.execute(UPSERT_CHILD, row | {"revision": revision})
    planner.execute("DELETE FROM workspace_objects WHERE name = %s", (name,))
    events = log.take(3, of=name)
    first, second, tombstone = events
    assert {event.topic for event in events} == {topic}
    assert len({event.partition for event in events}) == 1
    assert first.headers == {"traceparent": TRACE.encode()}
    assert "live_version" not in (first.value or {})
    read = [WorkspaceObject.from_record(event.value or {}) for event in (first, second)]
    assert [(each.identity, each.revision, each.manifest, each.deleted) for each in read] == [
        ((workspace, "team-a", "GitOpsDeployment", name), revision, '{"spec":"ü"}', False) for revision in (1, 2)
    ]
    assert tombstone.value is None
    assert WorkspaceObject.from_tombstone(tombstone.key).identity == read[0].identity


def test_workspace_when_it_is_added_then_its_topic_of_child_objects_begins_with_every_row(
    log: Log, infrastructure: HostedStack, planner: psycopg.Connection, name: str
) -> None:
    workspace = f"A.b-{name}"
    planner.execute(UPSERT_CHILD, {"workspace": workspace, "name": name, "revision": 1, "trace": TRACE})
    (before,) = log.take(1, of=name)
    assert before.topic == OBJECTS
    added = CliRunner().invoke(workspaces.app, ["add", workspace], env=infrastructure.environment)
    assert "1 rows moved" in added.output
    (tombstone,) = log.take(1, of=name)
    assert (tombstone.topic, tombstone.value) == (OBJECTS, None)
    log.follow(objects_topic(workspace))
    (moved,) = log.take(1, of=name)
    assert (moved.topic, moved.key, (moved.value or {})["revision"]) == (objects_topic(workspace), before.key, 1)


def test_workspace_when_it_is_added_then_its_topic_begins_with_every_status_and_goes_on_without_a_restart(
    log: Log, infrastructure: HostedStack, planner: psycopg.Connection, name: str
) -> None:
    workspace = f"A.b_{name}"
    statuses = {"workspace": workspace, "trace": TRACE}
    planner.execute(INSERT_WORKSPACE, statuses | {"name": name})
    (before,) = log.take(1, of=name)
    assert before.topic == WORKSPACE

    added = CliRunner().invoke(workspaces.app, ["add", workspace], env=infrastructure.environment)
    assert added.exit_code == 0, added.output
    deletion, tombstone = log.take(2, of=name)
    assert ((deletion.value or {})["__deleted"], tombstone.value) == ("true", None)
    planner.execute("UPDATE workspace_statuses SET digest = 'd2' WHERE workspace = %s", (workspace,))
    log.follow(workspace_topic(workspace))
    events = log.take(2, of=name)
    assert [(event.topic, (event.value or {})["digest"]) for event in events] == [
        (workspace_topic(workspace), "d1"),
        (workspace_topic(workspace), "d2"),
    ]
    assert (events[0].key, {**(events[0].value or {}), "updated_at": None}) == (
        before.key,
        {**(before.value or {}), "updated_at": None},
    )
    assert events[0].headers == {"traceparent": TRACE.encode()}

    again = CliRunner().invoke(workspaces.app, ["add", workspace], env=infrastructure.environment)
    assert "is known" in again.output
    assert log.nothing_follows()


def test_transaction_when_it_has_many_rows_then_they_arrive_in_order(
    log: Log, upsert: Callable[..., None], planner: psycopg.Connection, name: str
) -> None:
    digests = [f"d{number}" for number in range(50)]
    with planner.transaction():
        for digest in digests:
            upsert(digest=digest)
    assert [(event.value or {})["digest"] for event in log.take(len(digests), of=name)] == digests


def test_instance_when_its_row_changes_then_the_fleet_s_topic_has_it_as_it_is_each_time(
    log: Log, planner: psycopg.Connection, name: str
) -> None:
    for state in ("accepting", "retired"):
        planner.execute(UPSERT_INSTANCE, {"name": name, "state": state})
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while len(rows := log.states_of_instance(name)) < 2:
        assert time.monotonic() < deadline, rows
    row = {
        "id": name, "namespace": name, "created_at": "2026-01-02T03:04:05.678901Z", "engine": "argocd",
        "engine_cluster": "default", "region": "", "engine_class": "dedicated", "dedicated_to": "team",
        "ring": "canary", "capacity": 7, "ordered_at": "2026-01-02T03:04:06.000000Z", "__deleted": "false",
        "health": None, "health_reason": None, "version": None,
        "wanted_version": None, "profile": None, "due_at": None, "state_message": None,
        "reapply_ordered_at": None,
    }  # fmt: skip
    assert rows == [row | {"state": "accepting"}, row | {"state": "retired"}]


def test_instances_of_before_their_table_was_streamed_when_they_are_asked_for_then_the_topic_has_them(
    log: Log, infrastructure: HostedStack, planner: psycopg.Connection, name: str
) -> None:
    planner.execute(UPSERT_INSTANCE, {"name": name, "state": "accepting"})
    deadline = time.monotonic() + ARRIVAL_SECONDS
    for count in (1, 2):
        while len(log.states_of_instance(name)) < count:
            assert time.monotonic() < deadline
        if count == 1:
            told = CliRunner(env=infrastructure.environment).invoke(connector.app, ["resend", "engine_instances"])
            assert told.exit_code == 0, told.output


def test_schemas_when_rows_and_heartbeats_were_written_then_those_of_this_repository_are_all_that_there_are(
    log: Log, infrastructure: HostedStack, upsert: Callable[..., None], planner: psycopg.Connection, name: str
) -> None:
    upsert()
    for workspace in ("local", "never-added"):
        planner.execute(INSERT_WORKSPACE, {"workspace": workspace, "name": name, "trace": TRACE})
    log.take(3, of=name)
    url = infrastructure.environment["SCHEMA_REGISTRY_URL"]
    client = SchemaRegistryClient({"url": url})
    versions = {subject: client.get_versions(subject) for subject in client.get_subjects()}
    assert versions == {subject: [1] for subject in SUBJECTS | COMPILED_SUBJECTS}
    ours = SchemaRegistry(url)
    assert _schema_ids(infrastructure) == {subject: ours.id_of(subject) for subject in versions}


def test_connector_when_a_row_would_have_another_schema_then_it_may_not_register_that() -> None:
    definition = json.loads(DEFINITION.read_text())
    for converter in ("key.converter", "value.converter"):
        assert definition[f"{converter}.apicurio.registry.auto-register"] == "false"


def test_registry_when_killed_then_rows_go_on_arriving_and_schemas_keep_their_ids(
    log: Log, infrastructure: HostedStack, upsert: Callable[..., None], name: str
) -> None:
    upsert()
    log.take(1, of=name)
    before = _schema_ids(infrastructure)
    infrastructure.kill("registry")
    try:
        upsert(digest="d2")
        log.take(1, of=name)
    finally:
        infrastructure.start("registry")
    assert _schema_ids(infrastructure) == before


def test_connector_when_asked_about_then_it_caches_schemas_for_longer_than_the_registry_may_be_away() -> None:
    # Asked every 30 s, as is the default, an absent registry ends the connector's task for good.
    definition = json.loads(DEFINITION.read_text())
    for converter in ("key.converter", "value.converter"):
        assert int(definition[f"{converter}.apicurio.registry.check-period-ms"]) >= 24 * 60 * 60 * 1000
        assert definition[f"{converter}.apicurio.registry.fault-tolerant-refresh"] == "true"


def test_internal_rows_when_written_then_they_leave_no_trace_in_kafka(
    log: Log, infrastructure: HostedStack, owner: psycopg.Connection, upsert: Callable[..., None], name: str
) -> None:
    owner.execute("INSERT INTO debezium_signals VALUES (%s, 'log', '{\"message\": \"x\"}')", (name,))
    owner.execute("INSERT INTO debezium_heartbeat VALUES (2, now()) ON CONFLICT (id) DO UPDATE SET beat_at = now()")
    upsert()
    log.take(1, of=name)
    known = AdminClient({"bootstrap.servers": infrastructure.environment["KAFKA_BOOTSTRAP_SERVERS"]}).list_topics(
        timeout=10
    )
    assert [topic for topic in known.topics if "debezium" in topic or "public" in topic] == []


def test_snapshot_when_signalled_then_the_rows_asked_for_are_sent_again(
    log: Log, owner: psycopg.Connection, upsert: Callable[..., None], name: str
) -> None:
    upsert()
    log.take(1, of=name)
    condition = {"data-collection": "public.engine_resources", "filter": f"name = '{name}'"}
    request = {
        "type": "incremental",
        "data-collections": ["public.engine_resources"],
        "additional-conditions": [condition],
    }
    owner.execute(
        "INSERT INTO debezium_signals VALUES (%s, 'execute-snapshot', %s)", (str(uuid.uuid4()), json.dumps(request))
    )
    (again,) = log.take(1, of=name)
    assert (again.value or {})["digest"] == "d1"


def test_row_when_its_dead_letter_is_redriven_then_the_row_is_sent_as_it_is_by_then_and_no_signal_stays(
    log: Log, infrastructure: HostedStack, owner: psycopg.Connection, upsert: Callable[..., None], name: str
) -> None:
    owner.execute("DELETE FROM debezium_signals")
    environment = infrastructure.environment
    upsert()
    (event,) = log.take(1, of=name)
    codec = AvroCodec(SchemaRegistry(environment["SCHEMA_REGISTRY_URL"]), DeadLetter, value_subject(DEAD_LETTERS))
    letter = DeadLetter("agent", ENGINE, event.partition, 0, event.raw_key, b"?", {}, name, datetime.now(UTC))
    with closing(Publisher(environment["KAFKA_BOOTSTRAP_SERVERS"], "tests")) as publisher:
        publisher.send_message(DEAD_LETTERS, None, codec.encode_message(letter)).result(timeout=30)
    upsert(digest="d2")
    log.take(1, of=name)
    told = CliRunner(env=environment).invoke(dlq.app, ["redrive", "--reason", name])
    assert "1 of 1 redriven" in told.stderr, told.output
    (again,) = log.take(1, of=name)
    assert (again.value or {})["digest"] == "d2"
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while signals := owner.execute("SELECT * FROM debezium_signals").fetchall():
        assert time.monotonic() < deadline, signals


def test_connector_when_its_database_was_killed_then_it_goes_on_without_a_loss(
    log: Log, infrastructure: HostedStack, name: str
) -> None:
    infrastructure.kill("postgres")
    infrastructure.start("postgres")
    with psycopg.connect(infrastructure.environment["DATABASE_URL"], autocommit=True) as planner:
        write_row(planner, "engine-a", name)
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while (message := log.consumer.poll(0.1)) is None:
        assert time.monotonic() < deadline
    assert decode_record(SchemaRegistry(infrastructure.environment["SCHEMA_REGISTRY_URL"]), message.key())["name"]


def _schema_ids(infrastructure: HostedStack) -> dict[str, int]:
    client = SchemaRegistryClient({"url": infrastructure.environment["SCHEMA_REGISTRY_URL"]})
    return {subject: client.get_latest_version(subject).schema_id or 0 for subject in client.get_subjects()}


def _java_hash(text: str) -> int:
    """``String.hashCode`` of Java."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value
