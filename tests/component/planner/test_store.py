"""The store on a real PostgreSQL, as the role the planner has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import TransactionStatus
from structlog.testing import capture_logs

from services.common.api import FINALIZER
from services.common.errors import Poison, Retry
from services.common.messages import Checked, SyncMoved
from services.common.telemetry.metrics import NAME_COLLISIONS
from services.planner import persist as persist_module
from services.planner.coalesce import coalesce
from services.planner.events import Event
from services.planner.ids import resource_id
from services.planner.kinds.limits import Limits
from services.planner.offsets import Span
from services.planner.persist import STEPS, Fenced
from services.planner.plan import plan
from services.planner.rows import Changes
from services.planner.rules import Rules
from services.planner.store import Store
from tests.component.conftest import Database
from tests.unit.planner.given import (
    CREDENTIAL,
    ENVIRONMENT,
    SYNC_RUN,
    SYNCED,
    WORKSPACE,
    Applied,
    Failed,
    Removed,
    at,
    changed,
    credential,
    environment,
    gone,
    observed,
    resource,
    resource_gone,
    resync,
    secret,
    spec,
    status,
    sync_run,
)
from tests.unit.planner.world import FLEET, World

TOPIC = "gitops.commands"
TABLES = (
    "tenants", "deployments", "observed_states", "resources", "checks", "sync_runs", "operations", "engine_resources",
    "workspace_resources",
)  # fmt: skip


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    """A store on a database that knows the fleet."""
    with psycopg.connect(database.owner_url) as owner:
        for instance in FLEET:
            owner.execute(
                "INSERT INTO engine_instances (id, namespace) VALUES (%s, %s)", (instance.id, instance.namespace)
            )
    with closing(Store(database.planner_url)) as opened:
        yield opened


def take(store: Store, *events: Event, spans: Sequence[Span] = (), rules: Rules | None = None) -> Changes:
    """One batch, as the service does it."""
    batch = coalesce(events)
    changes = plan(store.load(batch), batch, rules or Rules())
    store.save(changes, spans)
    return changes


def contents(database: Database) -> dict[str, list[Any]]:
    """All rows of all tables, less the times at which they were written."""
    with psycopg.connect(database.owner_url, row_factory=psycopg.rows.dict_row) as owner:
        found = {name: owner.execute(_everything(name)).fetchall() for name in TABLES}
    for rows in found.values():
        for row in rows:
            row.pop("created_at", None)
            row.pop("updated_at", None)
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def _everything(table: str) -> sql.Composed:
    return sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))


def next_offset(database: Database, partition: int = 0) -> int:
    with psycopg.connect(database.owner_url) as owner:
        row = owner.execute("SELECT next_offset FROM consumer_offsets WHERE partition = %s", (partition,)).fetchone()
    assert row is not None
    return int(row[0])


def life(instance: str, digest: str) -> list[list[Event]]:
    """Batches in which everything happens that can."""

    def says(second: int, event: Any, uid: str = "uid-1") -> Event:
        return observed(second, event, instance=instance, name=f"gitopsdepl-{uid}")

    return [
        [changed(1), changed(2, "api", uid="uid-2", content=spec(source={"path": "/"}))],
        [says(3, Applied(digest)), says(4, status(4, sync=SYNCED, conditions=[{"type": "W", "message": "ü\\u0000"}]))],
        [changed(5, generation=2, content=spec(source={"path": "x\u0000'\"", "repoURL": "https://g.example/ü;"}))],
        [says(6, Failed("other", permanent=True, message="no")), changed(7, "api", uid="uid-2", generation=2)],
        [changed(8, uid="uid-3"), says(9, status(9, sync={"status": "OutOfSync"}), "uid-2")],
        [says(10, Removed(forced=True)), changed(11, "api", uid="uid-2", epoch=9), resync(12, epoch=9)],
        [changed(13, "api", uid="uid-2", deleting=True, epoch=9, finalizers=(FINALIZER,))],
        [says(14, Removed(forced=False), "uid-2"), gone(15, "api", uid="uid-2")],
        *life_of_resources(instance),
    ]


def life_of_resources(instance: str) -> list[list[Event]]:
    """The same for everything but deployments. Digests are not known beforehand: any will do."""

    def says(second: int, kind: str, uid: str, event: Any) -> Event:
        prefix = {"ClusterSecret": "managed-env-", "RepositorySecret": "repo-cred-", "SyncOperation": ""}[kind]
        return observed(second, event, instance=instance, kind=kind, name=f"{prefix}{resource_id(WORKSPACE, uid)}")

    remote = spec(destination={"environment": "prod", "namespace": "web"})
    ended = SyncMoved("uid-now", "Succeeded", "ü", "abc", "2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z")
    return [
        [secret(20), environment(21, clusterResources=True), changed(22, uid="uid-4", content=remote)],
        [says(23, "ClusterSecret", "uid-prod", Checked("of another", "Succeeded", ""))],
        [secret(24, "login", "repository-credential"), credential(25), environment(26, "over", secret_type="Opaque")],
        [changed(27, "manual", uid="uid-5", content=spec(type="manual")), sync_run(28), sync_run(29, "later", "no")],
        [says(30, "SyncOperation", "", ended), resource_gone(31, SYNC_RUN, "now")],
        [environment(32, epoch=9), resync(33, 9, kind=ENVIRONMENT), resource_gone(34, "Secret", "kubeconfig")],
        [resource_gone(35, ENVIRONMENT, "prod"), gone(36, uid="uid-4"), gone(37, "manual", uid="uid-5")],
        [says(38, "ClusterSecret", "uid-prod", Removed(forced=False)), resource_gone(39, CREDENTIAL, "login")],
        [says(40, "RepositorySecret", "uid-login", Removed(forced=True))],
    ]


def test_store_when_it_takes_the_same_batches_then_it_holds_what_the_model_holds(
    store: Store, database: Database
) -> None:
    world = World()
    world.take(changed(1))
    application = world.application()
    assert application is not None
    world = World()
    for batch in life(application.engine_instance_id, application.digest):
        assert take(store, *batch) == world.take(*batch)
        state, model = store.load(batch), world.state(batch)
        assert (state.deployments, state.observed) == (model.deployments, model.observed)
        assert state.statuses == model.statuses
        assert (state.resources, state.checks, state.sync_runs) == (model.resources, model.checks, model.sync_runs)
        assert (state.holdings, state.usage) == (model.holdings, model.usage)
    store.save(Changes(), [])
    stored = contents(database)
    assert len(stored["deployments"]) == len(world.deployments)
    assert {row["name"] for row in stored["engine_resources"]} == {row.name for row in world.engine.values()}
    assert {row["digest"] for row in stored["workspace_resources"]} == {row.digest for row in world.workspace.values()}
    assert {(row["id"], row["state"], row["message"]) for row in stored["operations"]} == {
        (row.id, row.state, row.message) for row in world.operations.values()
    }


def test_store_when_resources_are_beyond_the_allowance_then_it_reads_what_the_model_does(store: Store) -> None:
    rules = Rules(limits=Limits(environments=2, destinations=4, secrets=2, bytes=2500))
    world = World(rules=rules)
    world.take(changed(1))
    application = world.application()
    assert application is not None
    world, beyond = World(rules=rules), []
    for batch in life_beyond_the_allowance(application.engine_instance_id):
        assert store.load(batch) == world.state(batch)
        assert take(store, *batch, rules=rules) == world.take(*batch)
        beyond.append(sum(known.over_quota for known in world.resources.values()))
    assert beyond == [0, 1, 1, 2, 1, 2, 0, 0]


def life_beyond_the_allowance(instance: str) -> list[list[Event]]:
    """Resources that outgrow it while something of them is in force, and such as wait until others are gone."""
    secret_name = f"managed-env-{resource_id(WORKSPACE, 'uid-prod')}"
    removed = observed(9, Removed(forced=False), instance=instance, kind="ClusterSecret", name=secret_name)
    remote = spec(destination={"environment": "prod", "namespace": "a"})
    many = [f"namespace-{number}" for number in range(9)]
    return [
        [secret(1), environment(2, namespaces=["a"]), changed(3, content=remote)],
        [environment(4, generation=2, namespaces=many), secret(4, "login", "repository-credential"), credential(4)],
        [changed(5, "local", uid="uid-2")],
        [resource(6, "Secret", "kubeconfig", {"sealed": "x" * 5000}, uid="uid-secret-kubeconfig", generation=0)],
        [changed(7, "local", uid="uid-2", version=7, epoch=2), environment(7, "next", namespaces=["b", "c"])],
        [resource_gone(8, ENVIRONMENT, "prod"), environment(8, "last", namespaces=["d"])],
        [removed, changed(9, "late", uid="uid-3")],
        [changed(10, "later", uid="uid-4")],
    ]


def test_name_when_another_tenant_has_it_then_its_row_stays_and_that_is_told(store: Store, database: Database) -> None:
    both = Rules(local_workspaces=frozenset({"local", "elsewhere"}))
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("DELETE FROM engine_instances WHERE id <> %s", (FLEET[0].id,))
    take(store, changed(1), rules=both)
    before = contents(database)["engine_resources"]
    counted = NAME_COLLISIONS.labels("Application")._value.get()
    with capture_logs() as lines:
        take(store, changed(1), changed(2, "own", uid="uid-2"), rules=both)
        assert lines == []
        take(store, changed(3, workspace="elsewhere"), rules=both)
    (told,) = lines
    assert (told["name"], told["refused"], told["owner"]) == ("gitopsdepl-uid-1", "elsewhere/team-a", "local/team-a")
    assert NAME_COLLISIONS.labels("Application")._value.get() == counted + 1
    assert [row for row in contents(database)["engine_resources"] if row in before] == before


def test_row_when_its_digest_is_unchanged_then_it_is_not_written_again(store: Store, database: Database) -> None:
    changes = take(store, changed(1))
    with psycopg.connect(database.owner_url) as owner:
        before = owner.execute("SELECT xmin::text, updated_at FROM engine_resources ORDER BY name").fetchall()
        store.save(Changes(engine=changes.engine), [])
        assert owner.execute("SELECT xmin::text, updated_at FROM engine_resources ORDER BY name").fetchall() == before


def test_rows_when_streamed_then_the_project_comes_before_its_application(store: Store, database: Database) -> None:
    take(store, changed(1))
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT kind FROM engine_resources ORDER BY ctid").fetchall()
    assert [kind for (kind,) in rows] == ["AppProject", "Application"]


def test_rows_when_everything_goes_then_the_application_is_streamed_before_the_secret_of_its_cluster(
    store: Store, database: Database
) -> None:
    remote = spec(destination={"environment": "prod", "namespace": "web"})
    take(store, secret(1), environment(2), changed(3, content=remote))
    (row,) = store.load([changed(4)]).holdings.values()
    ((kind, name),) = row
    instance = next(iter(store.load([changed(4)]).tenants.values())).engine_instance_id
    checked = Checked(row[kind, name].digest, "Succeeded", "")
    take(store, observed(5, checked, instance=instance, kind=kind, name=name))
    take(store, resource_gone(6, ENVIRONMENT, "prod"), gone(7))
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT kind FROM engine_resources WHERE desired = 'absent' ORDER BY updated_at")
        assert [kind for (kind,) in rows.fetchall()] == ["Application", "ClusterSecret"]


@pytest.mark.parametrize("size", [1, 10, 200])
def test_batch_when_it_grows_then_the_number_of_statements_does_not(
    store: Store, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    statements: list[Any] = []
    execute = psycopg.Connection.execute

    def counted(connection: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        statements.append(query)
        return execute(connection, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    batch = [changed(1, f"web-{number}", uid=f"uid-{number}", namespace=f"team-{number % 7}") for number in range(size)]
    take(store, *batch)
    assert len(statements) == 6 + 4  # six reads; tenants, deployments, operations, engine resources
    statements.clear()
    take(store, *batch, resync(2, epoch=2))
    assert len(statements) <= 7 + 4  # one read more; deployments, operations (twice), engine resources


# Offsets and effects are one transaction


def test_offsets_when_nothing_is_stored_then_they_begin_at_the_beginning(store: Store) -> None:
    assert store.positions([(TOPIC, 0), (TOPIC, 1)]) == {(TOPIC, 0): 0, (TOPIC, 1): 0}


def test_offsets_when_a_batch_is_saved_then_they_move_with_its_effects(store: Store, database: Database) -> None:
    store.positions([(TOPIC, 0)])
    take(store, changed(1), spans=[Span(TOPIC, 0, 0, 17)])
    assert store.positions([(TOPIC, 0)]) == {(TOPIC, 0): 17}
    assert len(contents(database)["deployments"]) == 1


def test_planner_when_another_has_taken_over_then_it_is_fenced_and_writes_nothing(
    store: Store, database: Database
) -> None:
    store.positions([(TOPIC, 0), (TOPIC, 1)])
    with closing(Store(database.planner_url)) as successor:
        take(successor, spans=[Span(TOPIC, 1, 0, 5)])
    with pytest.raises(Fenced):
        take(store, changed(1), spans=[Span(TOPIC, 0, 0, 3), Span(TOPIC, 1, 0, 3)])
    assert contents(database)["deployments"] == []
    assert (next_offset(database, 0), next_offset(database, 1)) == (0, 5)


def test_planner_when_fenced_then_its_next_batch_begins_anew(store: Store, database: Database) -> None:
    store.positions([(TOPIC, 0)])
    with pytest.raises(Fenced):
        take(store, changed(1), spans=[Span(TOPIC, 0, 99, 100)])
    take(store, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    assert next_offset(database) == 1


@pytest.mark.parametrize("crash_at", range(len(STEPS)), ids=lambda number: f"step-{number}-{STEPS[number].table}")
def test_planner_when_it_crashes_between_two_steps_then_neither_effects_nor_offsets_remain(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    class Crash(BaseException):
        pass

    def crash(_: Any) -> Any:
        raise Crash

    store.positions([(TOPIC, 0)])
    broken = list(STEPS)
    broken[crash_at] = persist_module.Step("crash", "", crash, crash)
    monkeypatch.setattr(persist_module, "STEPS", tuple(broken))
    before = contents(database)
    with pytest.raises(Crash):
        take(store, changed(1), changed(2, "api", uid="uid-2"), spans=[Span(TOPIC, 0, 0, 2)])
    assert contents(database) == before
    assert next_offset(database) == 0


def test_planner_when_it_crashes_before_the_commit_then_the_same_batch_makes_the_same_rows_later(
    store: Store, database: Database
) -> None:
    store.positions([(TOPIC, 0)])
    with psycopg.connect(database.planner_url) as dying:
        persist_module.persist(dying, plan(store.load([changed(1)]), [changed(1)], Rules()), [Span(TOPIC, 0, 0, 1)])
        dying.pgconn.finish()
        store.close()
        with pytest.raises(psycopg.Error):
            dying.commit()
    assert next_offset(database) == 0
    take(store, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    assert next_offset(database) == 1


def test_planner_when_it_crashes_after_the_commit_then_the_next_one_goes_on_behind_the_batch(
    store: Store, database: Database
) -> None:
    store.positions([(TOPIC, 0)])
    take(store, changed(1), spans=[Span(TOPIC, 0, 0, 1)])
    with closing(Store(database.planner_url)) as successor:
        assert successor.positions([(TOPIC, 0)]) == {(TOPIC, 0): 1}
        with pytest.raises(Fenced):
            take(successor, changed(1), spans=[Span(TOPIC, 0, 0, 1)])


# Failures


def test_connection_when_it_is_cut_then_the_batch_can_be_retried(store: Store, database: Database) -> None:
    store.load([changed(1)])
    with psycopg.connect(database.planner_url, autocommit=True) as same_role:
        same_role.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'planner' AND datname = current_database()"
        )
    with pytest.raises(Retry):
        store.save(Changes(), [Span(TOPIC, 0, 0, 1)])
    assert len(take(store, changed(1)).engine) == 2


def test_value_when_the_database_refuses_it_then_it_is_poison_and_the_store_goes_on(
    store: Store, database: Database
) -> None:
    with pytest.raises(Poison):
        take(store, changed(1, generation=2**70))
    assert len(take(store, changed(1)).engine) == 2
    assert len(contents(database)["deployments"]) == 1


def test_planner_when_it_writes_what_is_not_its_own_then_it_may_not(database: Database) -> None:
    with psycopg.connect(database.planner_url, autocommit=True) as planner:
        for statement in (
            "INSERT INTO engine_instances (id, namespace) VALUES ('x', 'y')",
            "INSERT INTO debezium_signals VALUES ('x', 'y', 'z')",
            "UPDATE alembic_version SET version_num = 'x'",
            "CREATE TABLE mine (id int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                planner.execute(statement)  # type: ignore[arg-type]


def test_project_when_refused_then_all_deployments_of_its_tenant_that_wait_are_found(store: Store) -> None:
    changes = take(store, changed(1), changed(2, "api", uid="uid-2"))
    project = changes.engine[0]
    refused = observed(
        3,
        Failed(project.digest, permanent=True, message="denied"),
        instance=project.engine_instance_id,
        kind="AppProject",
        name=project.name,
    )
    assert sorted(row.name for row in take(store, refused).workspace) == ["api", "web"]


# Upkeep


def test_deployment_when_there_is_room_again_then_it_is_found_once(store: Store) -> None:
    rules = Rules(limits=Limits(deployments=1))

    def under_rules(*events: Event) -> Changes:
        changes = plan(store.load(events), events, rules)
        store.save(changes, ())
        return changes

    changes = under_rules(changed(1), changed(2, "api", uid="uid-2"), changed(3, "db", uid="uid-3"))
    assert store.with_room(rules.limits, at(4), partitions=[0], limit=10) == []
    under_rules(gone(5))
    (application,) = [row for row in changes.engine if row.kind == "Application"]
    removed = observed(6, Removed(forced=False), instance=application.engine_instance_id)
    under_rules(removed)
    assert store.with_room(rules.limits, at(7), partitions=[5], limit=10) == []
    waiting = store.with_room(rules.limits, at(7), partitions=[0], limit=10)
    assert [row.name for row in under_rules(*waiting).engine if row.kind == "Application"] == ["gitopsdepl-uid-2"]
    assert store.with_room(rules.limits, at(8), partitions=[0], limit=10) == []


def test_operations_when_old_then_they_are_pruned_a_bounded_number_at_a_time(store: Store) -> None:
    changes = take(store, *(changed(number, f"w-{number}", uid=f"uid-{number}") for number in range(5)))
    take(store, *(gone(10, f"w-{number}", uid=f"uid-{number}") for number in range(5)))
    after = changes.operations[-1].created_at.replace(year=2999)
    assert [store.prune_operations(after, limit=4) for _ in range(4)] == [4, 4, 2, 0]


def test_change_when_held_back_then_it_is_found_once_that_is_long_past(store: Store) -> None:
    take(store, changed(1, held_back_ms=3000), sync_run(1, held_back_ms=3000))
    assert store.held_back(at(1), at(90), partitions=[0], limit=10) == []
    assert store.held_back(at(30), at(90), partitions=[5], limit=10) == []
    due = store.held_back(at(30), at(90), partitions=[0], limit=10)
    assert len(due) == 2
    take(store, *due)
    assert store.held_back(at(30), at(90), partitions=[0], limit=10) == []


def test_run_when_its_cr_is_long_gone_then_it_is_forgotten(store: Store, database: Database) -> None:
    take(store, changed(1, content=spec(type="manual")), sync_run(2))
    take(store, resource_gone(3, SYNC_RUN, "now"))
    instance = next(iter(store.load([changed(4)]).tenants.values())).engine_instance_id
    ended = SyncMoved("uid-now", "Failed", "", "", "", "")
    take(store, observed(5, ended, instance=instance, kind="SyncOperation", name="gitopsdepl-uid-1"))
    assert store.forget_runs(at(1), limit=10) == 0
    assert len(contents(database)["sync_runs"]) == 1
    assert store.forget_runs(at(60), limit=10) == 1
    assert contents(database)["sync_runs"] == []


def test_tenant_when_it_still_has_a_secret_then_it_is_not_deleted(store: Store, database: Database) -> None:
    take(store, secret(1))
    changes = take(store, changed(2))
    take(store, gone(3))
    for row in reversed(changes.engine):
        gone_too = observed(4, Removed(forced=False), instance=row.engine_instance_id, kind=row.kind, name=row.name)
        take(store, gone_too)
    assert len(contents(database)["tenants"]) == 1
    assert contents(database)["engine_resources"] == []


def test_deletion_when_overdue_then_it_is_found_in_its_partition_only_and_the_cr_says_so(store: Store) -> None:
    take(store, changed(1))
    take(store, changed(2, deleting=True, finalizers=(FINALIZER,)))
    assert store.overdue(at(3), at(60), partitions=[5], limit=10) == []
    assert store.overdue(at(1), at(60), partitions=[0], limit=10) == []
    overdue = store.overdue(at(3), at(60), partitions=[0], limit=10)
    (row,) = take(store, *overdue).workspace
    assert "Deleting" in row.status
    assert take(store, *overdue).workspace == ()
    assert store.overdue(at(3), at(60), partitions=[0], limit=10) == []


def test_store_when_idle_in_between_then_no_transaction_is_left_open(store: Store) -> None:
    take(store, changed(1))
    assert store._connection is not None
    assert store._connection.info.transaction_status == TransactionStatus.IDLE
