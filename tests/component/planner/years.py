"""Years of a workspace cluster and an Argo CD, in a minute: what users make and delete, and agents report.

A real planner and a real database; the log, the cluster, the agent and the clock are played. A month of four weeks is
the unit: in each a tenant's resources come, change and go, and in every other its namespace is made anew. In one
tenant something is promoted each month for all these years, and in one that begins anew now and then (``shop.py``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from services.common.errors import Poison
from services.common.kafka import TopicPartition, observations_topic
from services.common.messages import (
    Command,
    DrainEngineInstance,
    FleetOrder,
    ResourceChanged,
    ResourceGone,
    SyncMoved,
    UndrainEngineInstance,
)
from services.kinds.environment.model import ENVIRONMENT as PLACE
from services.kinds.registry import REGISTRY
from services.kinds.snapshot_environment_binding.model import BINDING
from services.planner.database.columns import names
from services.planner.database.save import Span
from services.planner.database.session import DatabaseSession
from services.planner.database.tables.metadata import METADATA
from services.planner.domain.events import Event
from services.planner.domain.plan import plan
from services.planner.domain.policy import Policy, SweepGuard
from services.planner.domain.state import TenantState
from services.planner.engines.available import ENGINES
from services.planner.pipeline import batch_planning
from services.planner.pipeline.event_applier import coalesced
from services.planner.pipeline.loop import Planner
from services.planner.pipeline.periodic_tasks import PeriodicTasks
from services.planner.rows.compiled import ChildRow
from services.planner.rows.consumption import ParkedEvent, ParkedTenant
from tests.component.conftest import Database
from tests.component.fleet import add_instance
from tests.component.planner.shop import Shop
from tests.unit.fake_clock import FakeClock
from tests.unit.kinds.snapshot_environment_binding.test_binding_planned import binding
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    SYNC_RUN,
    SYNCED,
    Applied,
    Checked,
    Removed,
    at,
    changed,
    credential,
    environment,
    in_namespace,
    observed,
    resource,
    resync,
    secret,
    spec,
    status,
    sync_run,
)
from tests.unit.planner.world import FLEET

TOPIC = "gitops.commands"
MONTH = timedelta(weeks=4).total_seconds()
MONTHS_A_YEAR = 13
DEPLOYMENTS = 5
CLAIM = "DeploymentTargetClaim"
CLASS = json.dumps({"version": "1", "spec": {"provisioner": "example.com/nobody", "reclaimPolicy": "Delete"}})
KINDS = ("GitOpsDeployment", ENVIRONMENT, CREDENTIAL, SYNC_RUN, CLAIM, PLACE.kind, BINDING.kind, "Secret")
"""Of which tenants have resources that are no shops."""
LIMITS = {"GitOpsDeployment": DEPLOYMENTS, ENVIRONMENT: 2, SYNC_RUN: 40}
MOST_ROUNDS = 12

ROWS = sql.SQL("SELECT count(*) FROM {table}")
WIDEST = sql.SQL("SELECT coalesce(max(octet_length(each::text)), 0) FROM {table} AS each")
PARTS = "(SELECT {name}::regclass UNION SELECT relid FROM pg_partition_tree({name})) AS parts(relid)"
"""The table, and its partitions if it has some."""
SIZE = sql.SQL("SELECT sum(pg_total_relation_size(relid)) FROM " + PARTS)  # noqa: S608 - of constants
LEAVES = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
UNATTENDED = "ALTER TABLE {table} SET (autovacuum_enabled = false, toast.autovacuum_enabled = false)"
INSERTED = sql.SQL("SELECT sum(pg_stat_get_tuples_inserted(relid)) FROM " + PARTS)  # noqa: S608 - of constants
CHILD_OBJECTS = f"SELECT {names(ChildRow)} FROM workspace_objects WHERE namespace = %s"  # noqa: S608 - of constants
STATUSES = "SELECT kind, name, uid, status FROM workspace_statuses WHERE namespace = %s"
ALL_OBJECTS = """
SELECT engine_instance_id, kind, name, tenant_namespace, desired, digest, manifest FROM engine_resources
"""


class YearsClock(FakeClock):
    """Beginning where the events of the planner's tests do."""

    def now(self) -> datetime:
        return at(self.seconds)


@dataclass
class PlayedLog:
    """Stands where the consumer is: one partition, of which everything consumed is committed."""

    next: int = 0
    partitions: Sequence[int] = (0,)
    fleet_partition: int = 0
    reporting_clusters: frozenset[str] = frozenset({"default"})

    def spans_of(self, partitions: Any) -> list[Span]:
        return [Span(TOPIC, 0, self.next, self.next)]

    def sources_of_observations(self, number: int, engine_cluster: str) -> list[TopicPartition]:
        return [TopicPartition(observations_topic(engine_cluster), number)]

    def find_ends(self, sources: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(sources, self.next)

    def are_assigned(self, _: object) -> bool:
        return True

    def has_taken_in(self, ends: Any) -> bool:
        return True

    def acknowledge_batch(self, batch: Any) -> None:
        """Nobody asks."""


@dataclass
class PlayedDecoder:
    """Keeps what would be dead letters."""

    letters: list[str] = field(default_factory=list)

    def decode_messages(self, messages: Any) -> Any:
        return messages

    def give_up_kept(self, tenant: ParkedTenant, rows: Sequence[ParkedEvent], error: Poison) -> None:
        self.letters += [str(error)] * len(rows)


@dataclass
class Years:
    """A planner at work, and the world around it."""

    database: Database
    planner: Planner
    log: PlayedLog
    clock: YearsClock
    failing: set[str]
    """Namespaces of tenants on which a rule fails."""
    reader: psycopg.Connection
    """By which agents and watchers read rows."""
    tenants: int = 2
    deployments: int = DEPLOYMENTS + 2
    """Of a tenant; two more than its quota."""
    runs: int = 3
    month: int = 0
    made: int = 0
    """Deployments."""
    epoch: int = 1
    """Of the newest list."""
    shops: tuple[Shop, ...] = field(init=False)
    _existing: dict[tuple[str, str, str], Event] = field(default_factory=dict)
    _namespaces: dict[str, tuple[str, int]] = field(default_factory=dict)
    _answered: dict[tuple[str, str, str], tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shops = (
            Shop(world=self, namespace="shop", uids="shop", closes_after=0),
            Shop(world=self, namespace="market", uids="market", closes_after=2),
        )

    def live_through_year(self) -> None:
        """Thirteen months."""
        for _ in range(MONTHS_A_YEAR):
            self.live_through_month()

    def live_through_month(self) -> None:
        """What a month brings."""
        self.month += 1
        ends = self.month * MONTH
        for number in range(self.tenants):
            self._settle_in(f"team-{number}", anew=self.month % 2 == number % 2)
        self.failing |= {"team-0"} if self.month % 13 == 5 else set()
        self.answer()
        self._order()
        self._change()
        self._list(complete=self.month % 13 != 7)
        self.failing.clear()
        for shop in self.shops:
            shop.live_through_month()
        self._pass(seconds=11 * 60)
        self._delete()
        self.answer()
        self._list(complete=True)
        self._make_topics_anew()
        self._pass(seconds=ends - self.clock.seconds)

    def tables(self) -> dict[str, int]:
        """How many rows each table has."""
        with psycopg.connect(self.database.owner_url) as owner:
            return {name: _number(owner, ROWS, name) for name in METADATA.tables}

    def sizes(self) -> dict[str, int]:
        """How many bytes each table has ever taken with its indexes, if it is vacuumed each year."""
        with psycopg.connect(self.database.owner_url, autocommit=True) as owner:
            # It would give back the pages at the end if they happen to be empty: the size were that of a moment.
            owner.execute("VACUUM (TRUNCATE false)")
            return {name: _number(owner, SIZE, name) for name in METADATA.tables}

    def widths(self) -> dict[str, int]:
        """How many bytes the longest row of each table has, as text."""
        with psycopg.connect(self.database.owner_url) as owner:
            return {name: _number(owner, WIDEST, name) for name in METADATA.tables}

    def inserted(self) -> dict[str, int]:
        """How many rows were ever inserted into each table. Complete once the planner's session is closed."""
        with psycopg.connect(self.database.owner_url) as owner:
            return {name: _number(owner, INSERTED, name) for name in METADATA.tables}

    # What happens

    def _settle_in(self, namespace: str, *, anew: bool) -> None:
        if anew or namespace not in self._namespaces:
            self._forget([key for key in self._existing if key[0] == namespace], told=self.month % 2 == 0)
            second = self.tick()
            self._namespaces[namespace] = (f"uid-{namespace}-{second}", second * 1000)
        remote = spec(destination={"environment": "prod", "namespace": namespace})
        events = [
            secret(self.tick(), uid=f"secret-{namespace}-{self.month}", namespace=namespace),
            environment(self.tick(), uid=f"env-{namespace}-{self.month}", namespace=namespace, namespaces=[namespace]),
            secret(
                self.tick(),
                "login",
                "repository-credential",
                uid=f"login-{self.month}-{namespace}",
                namespace=namespace,
            ),
            credential(self.tick(), uid=f"cred-{namespace}-{self.month}", namespace=namespace),
            resource(
                self.tick(),
                PLACE.kind,
                "staging",
                {"displayName": "staging", "deploymentStrategy": "Manual"},
                uid=f"place-{namespace}-{self.month}",
                namespace=namespace,
            ),
            # Its child objects are made by nobody here.
            binding(self.tick(), uid=f"binding-{namespace}-{self.month}", namespace=namespace),
            resource(
                self.tick(),
                CLAIM,
                "space",
                {"deploymentTargetClassName": "space"},
                uid=f"claim-{namespace}-{self.month}",
                namespace=namespace,
                named_class=CLASS,
            ),
        ]
        for number in range(self.deployments):
            content = [spec(), remote, spec(type="manual")][number % 3]
            name, uid = f"web-{number}", f"{namespace}-{number}-{self.month}"
            events.append(changed(self.tick(), name, uid=uid, namespace=namespace, content=content))
        for number in range(self.runs):
            uid = f"run-{number}-{namespace}-{self.month}"
            name = f"run-{number}"
            events.append(sync_run(self.tick(), name, "web-2", uid=uid, namespace=namespace))
        self.made += self.deployments
        self._send(*in_namespace(self._namespaces[namespace], *events))

    def _change(self) -> None:
        """Each deployment gets another spec."""
        deployments = [event for key, event in self._existing.items() if key[1] == "GitOpsDeployment"]
        self._send(*(self._again(event, generation=2) for event in deployments))
        self.answer()

    def _order(self) -> None:
        """Operators have an instance take no tenants for a while."""
        for order in (DrainEngineInstance(FLEET[0].id), UndrainEngineInstance(FLEET[0].id)):
            self.tick()
            self.consume([Event(FleetOrder(uuid4(), "ada", self.clock.now(), order), 0, "")])

    def _make_topics_anew(self) -> None:
        """They had more partitions, and there was another one; a planner starts when these are gone."""
        former = [(TOPIC, number) for number in range(1, 13)] + [(f"gitops.of-month-{self.month}", 0)]
        self.planner.session.claim_partitions(former)
        self.planner.session.forget_positions({TOPIC: 1})

    def _list(self, *, complete: bool) -> None:
        """Of every kind; one that is not complete shows nothing."""
        self.epoch = int(self.clock.seconds)
        if complete:
            self._send(*(self._again(event, epoch=self.epoch) for event in self._existing.values()))
            self.consume([event for shop in self.shops for event in shop.events()])
        kinds = [kind.name for kind in REGISTRY.kinds] if complete else KINDS
        self.consume([resync(self.tick(), self.epoch, kind=kind) for kind in kinds])

    def _delete(self) -> None:
        """All that came this month, half of it with a finalizer to be released first."""
        self._send(*(self._again(self._existing[key], deleting=True) for key in list(self._existing)[1::2]))
        self.answer()
        self._forget(list(self._existing), told=True)

    def _forget(self, keys: Sequence[tuple[str, str, str]], *, told: bool) -> None:
        """They are gone; if that is not told, the next list or the next namespace shows it."""
        events = [self._gone(self._existing.pop(key)) for key in keys]
        self.consume(events if told else [])

    def _gone(self, event: Event) -> Event:
        message: Any = event.message
        gone = ResourceGone(message.event.kind, message.event.name, message.event.uid, str(self.tick()))
        return replace(event, message=replace(message, event=gone, seen_at=self.clock.now()))

    def _again(self, event: Event, **changes: Any) -> Event:
        message: Any = event.message
        change = replace(message.event, resource_version=str(self.tick()), **changes)
        return replace(event, message=replace(message, event=change, seen_at=self.clock.now()))

    def _send(self, *events: Event) -> None:
        for event in events:
            match event.message:
                case Command(namespace=namespace, event=ResourceChanged(kind=kind, name=name)):
                    self._existing[namespace, kind, name] = event
        self.consume(events)

    def answer(self) -> None:
        """Agents do what the rows say, and report it, until nothing is left to do."""
        for _ in range(MOST_ROUNDS):
            reports = list(self._reports())
            if not reports:
                return
            self.consume(reports)
        raise AssertionError("rows and reports without end")

    def _reports(self) -> Iterator[Event]:
        rows = self.reader.execute(ALL_OBJECTS).fetchall()
        known = {tuple(row[:3]): (row[4], row[5]) for row in rows}
        self._answered = {key: done for key, done in self._answered.items() if key in known}
        for instance, kind, name, namespace, desired, digest, manifest in rows:
            key = (instance, kind, name)
            if self._answered.get(key) != (desired, digest):
                self._answered[key] = (desired, digest)
                for report in self._report(kind, desired, digest, manifest):
                    second = self.tick()
                    yield observed(second, report, instance=instance, kind=kind, name=name, namespace=namespace)

    def _report(self, kind: str, desired: str, digest: str, manifest: str) -> Iterator[Any]:
        second = int(self.clock.seconds)
        if desired == "absent":
            yield Removed(forced=second % 5 == 0)
        elif kind == "SyncOperation":
            run = json.loads(manifest)["operation"]["run"]
            yield SyncMoved(run, "Succeeded", "", "abc", "2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z")
        elif kind.endswith("Secret"):
            yield Checked(digest, "Succeeded", "")
        else:
            yield Applied(digest)
            if kind == "Application":
                seen = [{"kind": "ConfigMap", "namespace": "web", "name": f"left-{second}"}]
                yield status(second, sync=SYNCED, health={"status": "Healthy"}, resources=seen)

    def consume(self, events: Sequence[Event]) -> None:
        if events:
            span = Span(TOPIC, 0, self.log.next, self.log.next + len(events))
            self.planner.applier.apply_events(coalesced(events), [span])
            self.log.next = span.next

    def tick(self) -> int:
        self.clock.seconds += 1
        return int(self.clock.seconds)

    def wait(self, time: timedelta) -> None:
        """It passes, and the planner does what is due."""
        self.clock.seconds += time.total_seconds()
        self.planner.periodic(self.planner.periodic_planner)

    def objects_of(self, namespace: str) -> list[ChildRow]:
        """Rows of what is wanted there of a watcher."""
        return [ChildRow(*row) for row in self.reader.execute(CHILD_OBJECTS, [namespace]).fetchall()]

    def statuses_of(self, namespace: str) -> list[Any]:
        """Kind, name and uid of what is there, and its status."""
        return self.reader.execute(STATUSES, [namespace]).fetchall()

    def _pass(self, seconds: float) -> None:
        """Time, and what the planner does by it."""
        self.clock.seconds += max(0.0, seconds)
        for _ in range(20):
            self.planner.periodic(self.planner.periodic_planner)
            self.clock.seconds += 1


def _number(owner: psycopg.Connection, query: sql.SQL, table: str) -> int:
    row = owner.execute(query.format(table=sql.Identifier(table), name=sql.Literal(table))).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def years(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Years]:
    """Before the first month."""
    with psycopg.connect(database.owner_url) as owner:
        # Whether it comes by, and gives pages back, is the machine's mood.
        for (leaf,) in owner.execute(LEAVES).fetchall():
            owner.execute(sql.SQL(UNATTENDED).format(table=sql.SQL(leaf)))
        for instance in FLEET:
            add_instance(owner, instance.id, instance.namespace)
    failing: set[str] = set()

    def plan_or_fail(state: TenantState, *arguments: Any) -> Any:
        if state.tenant.namespace in failing:
            raise ValueError("a rule fails")
        return plan(state, *arguments)

    monkeypatch.setattr(batch_planning, "plan", plan_or_fail)
    log, clock, decoder = PlayedLog(), YearsClock(), PlayedDecoder()
    with (
        closing(DatabaseSession(database.planner_url, ENGINES)) as session,
        psycopg.connect(database.owner_url, autocommit=True) as reader,
    ):
        session.claim_partitions([(TOPIC, 0)])
        planner = Planner(
            consumer=log,  # type: ignore[arg-type]
            decoder=decoder,  # type: ignore[arg-type]
            session=session,
            policy=Policy(guard=SweepGuard(share=0.5, minimum=2), limits=REGISTRY.limits(LIMITS)),
            batch_limit=500,
            periodic=PeriodicTasks(timedelta(days=30), timedelta(days=15)),
            find_cluster_topics=lambda _: {},
            clock=clock,
        )
        yield Years(database, planner, log, clock, failing, reader)
    assert decoder.letters == []
