"""The planner's loop on a real Kafka, schema registry and PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from services.common.avro import AvroCodec, SchemaRegistry
from services.common.errors import Retry, Unavailable
from services.common.kafka import (
    DEAD_LETTERS,
    DeadLetterLimit,
    DeadLetterQueue,
    Publisher,
    engine_topic,
    load_topics,
    log_of,
    observations_topic,
    tenant_key,
)
from services.common.messages import (
    AddEngineCluster,
    AddEngineInstance,
    Command,
    DeadLetter,
    DrainEngineInstance,
    FleetOrder,
    Observation,
    Order,
    PinTenant,
    RetireEngineInstance,
)
from services.kinds.snapshot.model import SNAPSHOT
from services.planner.database.save import Fenced, Span
from services.planner.database.session import DatabaseSession
from services.planner.domain.changes import BatchChanges
from services.planner.domain.events import Event
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.engines.available import ENGINES
from services.planner.pipeline import fleet_planning
from services.planner.pipeline.batch_consumer import BatchConsumer, Topics
from services.planner.pipeline.cluster_topics import find_cluster_topics
from services.planner.pipeline.decode import Codec, Decoder
from services.planner.pipeline.loop import Planner
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from tests.component.conftest import Database
from tests.component.fleet import add_instance, told_working
from tests.unit.planner.given import NAMESPACE, WORKSPACE, Applied, changed, gone, observed, resource, resync
from tests.unit.planner.world import FLEET

pytestmark = pytest.mark.short

DEADLINE_SECONDS, ENDED_SECONDS = 90.0, 30.0
ROWS, REPORTS = load_topics(engine_cluster="any")


@dataclass
class Rig:
    """Topics, schemas and a database of one test's own."""

    kafka: str
    registry: SchemaRegistry
    database: Database
    commands: str
    observations: str
    orders: str
    group: str
    publisher: Publisher

    def send(self, *events: Event) -> None:
        """Put events on their topics, in order, and wait until they are there."""
        sent = [self._send(event) for event in events]
        for delivery in sent:
            delivery.result(timeout=DEADLINE_SECONDS)

    def order(self, order: Order) -> uuid.UUID:
        """Have an operator order something of the fleet; returns under which id."""
        given = FleetOrder(uuid.uuid4(), "ada", datetime.now(UTC), order)
        codec: Any = self.codecs()[self.orders]
        self.publisher.send_message(self.orders, None, codec.encode_message(given)).result(timeout=DEADLINE_SECONDS)
        return given.id

    def send_raw(self, value: bytes) -> None:
        self.publisher.send_message(self.commands, b"local/team-a", value, partition=0).result(timeout=DEADLINE_SECONDS)

    def query(self, statement: LiteralString) -> list[Any]:
        with psycopg.connect(self.database.owner_url) as owner:
            return owner.execute(statement).fetchall()

    def until(self, what: str, statement: LiteralString, expected: list[Any]) -> None:
        """Wait until ``statement`` answers ``expected``."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (found := self.query(statement)) != expected:
            assert time.monotonic() < deadline, f"{what}: {found}"
            time.sleep(0.02)

    @contextmanager
    def built(self, dead_letters: Any = None) -> Iterator[Planner]:
        """A planner that does not run yet."""
        session = DatabaseSession(self.database.planner_url, ENGINES)
        topics = Topics(self.commands, self.observations, self.orders)
        consumer = BatchConsumer(self.kafka, session.claim_partitions, self.group, topics)
        letters = AvroCodec(self.registry, DeadLetter, f"{DEAD_LETTERS}-value")
        given_up = dead_letters or DeadLetterQueue(self.publisher, letters, "planner")
        with closing(session), closing(consumer):
            yield Planner(
                consumer=consumer,
                decoder=Decoder(self.codecs(), given_up, DeadLetterLimit("planner", 0.5, 3), consumer.offsets),
                session=session,
                policy=Policy(),
                batch_limit=500,
                periodic=PeriodicTasks(audit_kept=timedelta(days=1)),
                find_cluster_topics=partial(find_cluster_topics, self.kafka),
            )

    @contextmanager
    def planner(self) -> Iterator[Planner]:
        """A planner at work in a thread of its own; an error of its loop is the test's."""
        with self.built() as planner, ThreadPoolExecutor(1) as thread:
            running = thread.submit(planner.run)
            try:
                yield planner
            finally:
                planner.stopping.set()
                running.result(DEADLINE_SECONDS)

    def codecs(self) -> dict[str, Codec]:
        return {
            self.commands: AvroCodec(self.registry, Command, "gitops.commands-value"),
            log_of(self.observations): AvroCodec(self.registry, Observation, "gitops.observations-value"),
            self.orders: AvroCodec(self.registry, FleetOrder, "gitops.fleet-orders-value"),
        }

    def _send(self, event: Event) -> Any:
        assert isinstance(event.message, Command | Observation)
        topic = self.commands if isinstance(event.message, Command) else self.observations
        codec: Any = self.codecs()[log_of(topic)]
        key = tenant_key(event.message.workspace, event.message.namespace)
        return self.publisher.send_message(
            topic, key, codec.encode_message(event.message), {"traceparent": event.trace_id}, partition=0
        )


@pytest.fixture
def rig(
    kafka_bootstrap: str, registry_url: str, database: Database, topic_factory: Callable[[str, int], str]
) -> Iterator[Rig]:
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    commands, observations = topic_factory("commands", 2), topic_factory("observations", 2)
    orders = topic_factory("fleet-orders", 1)
    _await_topics(kafka_bootstrap, {commands, observations, orders})
    with closing(Publisher(kafka_bootstrap, "tests")) as publisher:
        yield Rig(
            kafka=kafka_bootstrap,
            registry=SchemaRegistry(registry_url),
            database=database,
            commands=commands,
            observations=observations,
            orders=orders,
            group=f"planner-{uuid.uuid4().hex}",
            publisher=publisher,
        )


def _await_topics(bootstrap_servers: str, topics: set[str]) -> None:
    """A topic just made is not known to every part of the broker at once."""
    admin, deadline = AdminClient({"bootstrap.servers": bootstrap_servers}), time.monotonic() + DEADLINE_SECONDS
    while not topics <= admin.list_topics(timeout=DEADLINE_SECONDS).topics.keys():
        assert time.monotonic() < deadline
        time.sleep(0.02)


ORDERS: LiteralString = "SELECT subject, outcome FROM fleet_orders ORDER BY decided_at, ordered_at"
PLACED: LiteralString = "SELECT workspace, engine_instance_id FROM tenants ORDER BY workspace"
WAITING: LiteralString = """
SELECT workspace, (SELECT count(*) FROM parked_events kept WHERE kept.tenant_id = parked.tenant_id),
       error LIKE 'there is no engine instance for it%'
  FROM parked_tenants parked
"""
POSITIONS_OF_REPORTS: LiteralString = """
SELECT next_offset FROM consumer_offsets WHERE topic LIKE 'gitops.observations.%' AND partition = 0
"""
STATES: LiteralString = "SELECT id, state FROM engine_instances ORDER BY id"
FULL_DISK: LiteralString = """
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'XX000'; END$$;
CREATE CONSTRAINT TRIGGER fill AFTER INSERT ON deployments DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fill()
"""
APPLICATIONS: LiteralString = "SELECT name, desired FROM engine_resources WHERE kind = 'Application' ORDER BY name"


def test_tenant_when_there_is_no_instance_for_it_then_it_alone_waits_until_operators_order_one_and_is_placed_there(
    rig: Rig,
) -> None:
    with psycopg.connect(rig.database.owner_url) as owner:
        owner.execute("DELETE FROM engine_instances")
    with rig.planner():
        rig.send(changed(1))
        rig.until("that it waits", WAITING, [(WORKSPACE, 1, True)])
        own = AddEngineInstance("own", "default", "argocd-own", "argocd", "dedicated", "other", "general", 10)
        rig.order(own)
        rig.until("that nobody serves it yet", STATES, [("own", "provisioning")])
        rig.send(told_working("own"))
        rig.send(changed(2, generation=2), changed(2, workspace="other"))
        rig.until("the other", PLACED, [("other", "own")])
        rig.until("that it waits", WAITING, [(WORKSPACE, 2, True)])
        rig.order(AddEngineInstance("new", "default", "argocd-new", "argocd", "shared", "", "general", 10))
        rig.until("that nobody serves it yet", STATES, [("new", "provisioning"), ("own", "accepting")])
        rig.send(told_working("new"))
        rig.until("both", PLACED, [(WORKSPACE, "new"), ("other", "own")])
        assert rig.query(WAITING) == []
        rig.until("the audit", ORDERS, [("own", "accepted"), ("new", "accepted")])
    assert rig.query("SELECT generation FROM deployments ORDER BY generation") == [(1,), (2,)]


def test_tenant_when_the_instance_in_its_namespace_is_retired_then_it_is_deployed_without_another_event(
    rig: Rig,
) -> None:
    is_refused: LiteralString = "SELECT pending_reason <> '' FROM deployments"
    with rig.planner():
        rig.order(AddEngineInstance("mistake", "default", NAMESPACE, "argocd", "shared", "", "general", 10))
        rig.until("the instance", ORDERS, [("mistake", "accepted")])
        rig.send(changed(1))
        rig.until("that it is refused", is_refused, [(True,)])
        rig.order(RetireEngineInstance("mistake"))
        rig.until("that it is not", is_refused, [(False,)])
    assert len(rig.query(APPLICATIONS)) == 1


@pytest.fixture
def cluster_with_topic(kafka_bootstrap: str) -> Iterator[Callable[[int], str]]:
    """Makes an engine cluster's topics, that of rows with so many partitions, without any order; returns its id."""
    admin, made = AdminClient({"bootstrap.servers": kafka_bootstrap}), list[str]()

    def make(partitions: int) -> str:
        cluster = f"north-{uuid.uuid4().hex[:8]}"
        topics = {engine_topic(cluster): partitions, observations_topic(cluster): REPORTS.partitions}
        made.extend(topics)
        for outcome in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
            outcome.result(timeout=DEADLINE_SECONDS)
        _await_topics(kafka_bootstrap, {*topics})
        return cluster

    yield make
    for outcome in admin.delete_topics(made).values():
        outcome.result(timeout=DEADLINE_SECONDS)


def test_cluster_when_ordered_without_a_topic_that_takes_its_rows_then_it_is_refused_and_tenants_are_not_affected(
    rig: Rig, cluster_with_topic: Callable[[int], str]
) -> None:
    whole, small, missing = cluster_with_topic(ROWS.partitions), cluster_with_topic(1), f"north-{uuid.uuid4().hex}"
    with rig.planner():
        for each in (missing, small, whole):
            rig.order(AddEngineCluster(each, ""))
        rig.send(changed(1))
        rig.until("the audit", ORDERS, [(missing, "refused"), (small, "refused"), (whole, "accepted")])
        rig.until("the tenant", "SELECT workspace FROM tenants", [(WORKSPACE,)])
    assert rig.query("SELECT message FROM fleet_orders ORDER BY ordered_at") == [
        (
            f"engine cluster {missing} has no topic gitops.engine.{missing}: "
            f"'gitopsctl engine-clusters add {missing}' makes it",
        ),
        (
            f"topic gitops.engine.{small} of engine cluster {small} has 1 partitions and needs 6: delete it if it is "
            f"empty, then 'gitopsctl engine-clusters add {small}' makes it",
        ),
        ("",),
    ]
    assert rig.query("SELECT id FROM engine_clusters WHERE id LIKE 'north-%'") == [(whole,)]


def test_report_when_it_is_of_an_instance_of_another_engine_cluster_then_it_has_no_effect(
    rig: Rig, cluster_with_topic: Callable[[int], str]
) -> None:
    north = cluster_with_topic(ROWS.partitions)
    with psycopg.connect(rig.database.owner_url) as owner:
        owner.execute("INSERT INTO engine_clusters VALUES (%s, '', now(), 'active', now())", (north,))
        add_instance(owner, "own", "argocd-north")
        owner.execute("UPDATE engine_instances SET engine_cluster = %s WHERE id = 'own'", (north,))
    theirs = replace(rig, observations=observations_topic(north))
    other = FLEET[0].id
    with theirs.planner():
        theirs.send(told_working(other), told_working("own"))
        theirs.until("the report", "SELECT DISTINCT engine_instance_id FROM engine_health", [("own",)])
        theirs.until("its position", POSITIONS_OF_REPORTS, [(2,)])
    assert rig.query("SELECT engine_instance_id FROM engine_health") == [("own",)]


def test_topic_of_a_cluster_when_no_broker_answers_then_that_is_tried_again_within_seconds() -> None:
    asked_at = time.monotonic()
    with pytest.raises(Retry, match=r"asked for gitops\.engine\.north"):
        find_cluster_topics("127.0.0.1:1", ["north"])
    assert time.monotonic() - asked_at < ENDED_SECONDS


def test_orders_when_sent_then_they_are_decided_and_what_has_tenants_is_not_retired(rig: Rig) -> None:
    first, second = (each.id for each in FLEET)
    with rig.planner():
        rig.order(DrainEngineInstance(first))
        rig.until("the state", STATES, [(first, "drained"), (second, "accepting")])
        rig.send(changed(1))
        rig.until("the tenant", "SELECT engine_instance_id FROM tenants", [(second,)])
        rig.order(RetireEngineInstance(first))
        rig.order(RetireEngineInstance(second))
        rig.until("the audit", ORDERS, [(first, "accepted"), (first, "accepted"), (second, "refused")])
    assert rig.query(STATES) == [(first, "retired"), (second, "accepting")]


def test_order_when_a_rule_fails_on_it_then_it_alone_is_given_up_and_tenants_and_later_orders_are_done(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = fleet_planning.carry_out_orders

    def fail(orders: Sequence[FleetOrder], *loaded: Any) -> Any:
        if any(isinstance(each.order, PinTenant) for each in orders):
            raise LookupError("not loaded")
        return carry_out(orders, *loaded)

    monkeypatch.setattr(fleet_planning, "carry_out_orders", fail)
    first, second = (each.id for each in FLEET)
    with rig.planner():
        rig.order(PinTenant("local", "team-a", first))
        rig.order(DrainEngineInstance(first))
        rig.until("the audit", ORDERS, [(first, "accepted")])
        rig.send(changed(1))
        rig.until("the tenant", "SELECT engine_instance_id FROM tenants", [(second,)])


def test_instance_when_its_last_tenant_leaves_while_it_drains_then_it_is_drained(rig: Rig) -> None:
    first, second = (each.id for each in FLEET)
    with rig.planner():
        rig.order(DrainEngineInstance(first))
        rig.send(changed(1))
        rig.until("the tenant", "SELECT engine_instance_id FROM tenants", [(second,)])
        rig.order(DrainEngineInstance(second))
        rig.until("the state", STATES, [(first, "drained"), (second, "draining")])
        with psycopg.connect(rig.database.owner_url) as owner:
            owner.execute("DELETE FROM deployments; DELETE FROM engine_resources; DELETE FROM tenants")
        rig.until("the state", STATES, [(first, "drained"), (second, "drained")])


def test_commands_and_observations_when_sent_then_they_take_effect(rig: Rig) -> None:
    with rig.planner():
        rig.send(changed(1))
        rig.until("the application", APPLICATIONS, [("gitopsdepl-uid-1", "present")])
        ((instance, digest),) = rig.query(
            "SELECT engine_instance_id, digest FROM engine_resources WHERE kind = 'Application'"
        )
        rig.send(observed(2, Applied(digest), instance=instance))
        rig.until("the audit", "SELECT applied_digest FROM observed_states", [(digest,)])
        rig.send(gone(3))
        rig.until("the deletion", APPLICATIONS, [("gitopsdepl-uid-1", "absent")])


def test_row_when_compiled_then_it_carries_the_trace_of_its_command(rig: Rig) -> None:
    with rig.planner():
        rig.send(changed(7))
        rig.until("the trace", "SELECT DISTINCT trace_id FROM engine_resources", [(changed(7).trace_id,)])


def test_message_when_it_cannot_be_understood_then_the_others_take_effect_and_the_offsets_pass_it(rig: Rig) -> None:
    with rig.planner():
        rig.send_raw(b"not avro")
        rig.send(changed(1))
        rig.until("the application", APPLICATIONS, [("gitopsdepl-uid-1", "present")])
        rig.until(
            "the offset",
            "SELECT next_offset FROM consumer_offsets WHERE topic LIKE 'commands%' AND next_offset > 0",
            [(2,)],
        )


def test_planner_when_a_dead_letter_cannot_be_written_then_it_stops_and_the_offsets_stay(rig: Rig) -> None:
    class Refusing:
        def send_letter(self, *_: Any) -> Future[int]:
            outcome: Future[int] = Future()
            outcome.set_exception(Retry("refused"))
            return outcome

    rig.send_raw(b"not avro")
    with rig.built(Refusing()) as planner, pytest.raises(Unavailable, match="refused"):
        planner.run()
    assert rig.query("SELECT max(next_offset) FROM consumer_offsets") == [(0,)]


def test_planner_when_it_starts_again_then_it_goes_on_from_the_databases_offsets(rig: Rig) -> None:
    with rig.planner():
        rig.send(changed(1), changed(2, "api", uid="uid-2"))
        rig.until("both", "SELECT count(*) FROM deployments", [(2,)])
    with psycopg.connect(rig.database.owner_url) as owner:
        owner.execute("UPDATE consumer_offsets SET next_offset = 1 WHERE next_offset = 2")
        owner.execute("DELETE FROM deployments")
        owner.execute("DELETE FROM engine_resources")
    rig.group = f"planner-{uuid.uuid4().hex}"
    with rig.planner():
        rig.until("the second only", APPLICATIONS, [("gitopsdepl-uid-2", "present")])
        rig.until("the offset", "SELECT max(next_offset) FROM consumer_offsets", [(2,)])


def test_planner_when_the_offsets_moved_under_it_then_it_rereads_them_and_goes_on(rig: Rig) -> None:
    with rig.planner():
        rig.send(changed(1))
        rig.until("the first", "SELECT count(*) FROM deployments", [(1,)])
        with psycopg.connect(rig.database.owner_url) as owner:
            owner.execute("UPDATE consumer_offsets SET next_offset = 0")
            owner.execute("DELETE FROM deployments")
        rig.send(changed(2, "api", uid="uid-2"))
        rig.until("both again", "SELECT count(*) FROM deployments", [(2,)])


def test_zombie_when_it_saves_after_its_successor_then_it_is_fenced(rig: Rig) -> None:
    with rig.planner():
        rig.send(changed(1))
        rig.until("the first", "SELECT count(*) FROM deployments", [(1,)])
    with closing(DatabaseSession(rig.database.planner_url, ENGINES)) as zombie, pytest.raises(Fenced):
        zombie.save_changes(BatchChanges(), [Span(rig.commands, 0, 0, 1)])


def test_zombie_when_it_is_fenced_then_it_leaves_its_successor_alone_until_the_group_assigns_it_something(
    rig: Rig,
) -> None:
    with rig.built() as zombie, closing(DatabaseSession(rig.database.planner_url, ENGINES)) as successor:
        zombie.periodic = lambda _: None
        rig.send(changed(1))
        batch = zombie.consumer.poll_batch(10, DEADLINE_SECONDS)
        while not batch.messages:
            batch = zombie.consumer.poll_batch(10, DEADLINE_SECONDS)
        taken = successor.claim_partitions(zombie.consumer.offsets.partitions)
        assert not zombie.retry_until_done(partial(zombie.process_batch, batch))
        assert zombie.consumer.partitions == []
        source = batch.messages[0].tracked.source
        assert taken[source] == 0
        for offset in range(3):
            successor.save_changes(BatchChanges(), [Span(*source, offset, offset + 1)])
            assert zombie.consumer.spans_of([source.partition]) == []
        assert zombie.failures.latest
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not zombie.consumer.partitions:
            assert time.monotonic() < deadline
            zombie.consumer.poll_batch(10, 0.1)
        with pytest.raises(Fenced):
            successor.save_changes(BatchChanges(), [Span(*source, 3, 4)])
        zombie.session.save_changes(BatchChanges(), [Span(*source, 3, 3)])


def test_connection_when_the_database_goes_away_then_the_same_batch_is_done_later(rig: Rig) -> None:
    with rig.planner():
        rig.send(changed(1))
        rig.until("the first", "SELECT count(*) FROM deployments", [(1,)])
        with psycopg.connect(rig.database.planner_url, autocommit=True) as same_role:
            same_role.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'planner' AND datname = current_database()"
            )
        rig.send(changed(2, "api", uid="uid-2"))
        rig.until("the second", "SELECT count(*) FROM deployments", [(2,)])


def test_commit_when_the_database_refuses_it_for_now_then_the_planner_goes_on_and_does_the_same_batch_later(
    rig: Rig,
) -> None:
    with rig.planner() as planner:
        with psycopg.connect(rig.database.owner_url) as owner:
            owner.execute(FULL_DISK)
        rig.send(changed(1))
        while "no space" not in planner.failures.latest:
            time.sleep(0.02)
        assert rig.query("SELECT count(*) FROM deployments") == [(0,)]
        with psycopg.connect(rig.database.owner_url) as owner:
            owner.execute("DROP FUNCTION fill CASCADE")
        rig.until("the deployment", "SELECT count(*) FROM deployments", [(1,)])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_when_told_to_stop_then_it_ends_with_zero(rig: Rig, registry_url: str, number: signal.Signals) -> None:
    environment = os.environ | {
        "DATABASE_URL": rig.database.planner_url,
        "KAFKA_BOOTSTRAP_SERVERS": rig.kafka,
        "SCHEMA_REGISTRY_URL": registry_url,
    }
    process = subprocess.Popen([sys.executable, "-m", "services.planner"], env=environment, stderr=subprocess.PIPE)
    try:
        rig.until("assignment", "SELECT count(*) > 0 FROM consumer_offsets", [(True,)])
        process.send_signal(number)
        assert process.wait(DEADLINE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


def test_sweep_when_it_removes_many_resources_of_a_tenant_then_another_tenants_change_is_done_between_two_parts(
    rig: Rig,
) -> None:
    many = 300  # so many that some are left when the neighbour is seen to be served, on a busy machine, too
    snapshots = [resource(number + 1, SNAPSHOT.kind, f"s-{number}", {"application": "shop"}) for number in range(many)]
    with rig.planner() as planner:
        planner.applier.policy = Policy(guard=SweepGuard(share=1.0, at_once=1))
        rig.send(*snapshots, resync(many + 1, epoch=9, kind=SNAPSHOT.kind))
        rig.until("the sweep is under way", "SELECT count(*) BETWEEN 1 AND 299 FROM sweep_parts", [(True,)])
        rig.send(changed(1, "web", uid="uid-neighbour", namespace="team-b"))
        rig.until("the neighbour is served", "SELECT count(*) FROM deployments", [(1,)])
        ((parts, resources),) = rig.query("SELECT (SELECT count(*) FROM sweep_parts), (SELECT count(*) FROM resources)")
        assert 0 < parts == resources < many, "each part is a transaction, and there are some left"
