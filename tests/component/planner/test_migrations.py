"""The migrations, on a real PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import orjson
import psycopg
import pytest
from alembic import command
from alembic.script import ScriptDirectory
from psycopg import sql
from typer.testing import CliRunner

from services.cli.fleet import engines as engine_commands
from services.cli.installation import database as database_commands
from services.cli.installation import workspaces
from services.common import startup
from services.common.errors import InvalidConfiguration, Unavailable
from services.common.package_data import MIGRATIONS
from services.planner.database.requirements import check_database, head
from services.planner.database.tables.publication import STREAMED
from tests.component.agent.conftest import until
from tests.component.conftest import Database, Servers
from tests.component.databases import in_database

pytestmark = pytest.mark.short

GRANTS = """
SELECT table_name, string_agg(privilege_type, ' ' ORDER BY privilege_type)
  FROM information_schema.role_table_grants WHERE grantee = %s GROUP BY table_name
"""
ENVIRONMENT = """
INSERT INTO resources (id, tenant_id, kind, source, name, uid, resource_version, generation, epoch, present, deleting,
                       finalizer, spec, omitted, refers_to, secret_type, target_uid, target_generation, accepted,
                       refusal, created_at, over_quota, held_back_ms, seen_at, trace_id)
VALUES (%(id)s, %(tenant)s, 'GitOpsDeploymentManagedEnvironment', 'w', %(name)s, %(name)s, '1', 1, 1, %(present)s,
        false, false, '{}', '', '', '', '', 0, '{}', '', 1000, false, 0, now(), '')
"""
DEPLOYMENT = """
INSERT INTO deployments (id, tenant_id, source, name, uid, resource_version, generation, epoch, present, deleting,
                         finalizer, spec, environment, error, seen_at, trace_id)
VALUES (%(id)s, %(tenant)s, 'w', %(name)s, %(name)s, '1', 1, 1, true, false, false, %(spec)s, %(environment)s, '',
        now(), '')
"""
APPLICATION = """
INSERT INTO engine_resources (engine_instance_id, kind, namespace, name, workspace, tenant_namespace, lane, wave,
                              desired, manifest, digest, trace_id, seen_at, updated_at)
VALUES ('one', 'Application', 'argocd', 'gitopsdepl-' || %(name)s, 'w', 'n', %(lane)s, 1, 'present', %(manifest)s, '',
        '', now(), now())
"""

INSTANCE = """
INSERT INTO engine_instances (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                              dedicated_to, ring, capacity, ordered_at)
VALUES (%s, %s, 'accepting', now(), 'argocd', %s, '', 'shared', '', 'general', 7, now())
"""


def test_migrations_when_listed_then_they_have_one_head() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [head()]


def test_tables_when_compared_with_the_migrations_then_there_is_no_drift(database: Database) -> None:
    outcome = CliRunner().invoke(database_commands.app, ["check", "--url", database.owner_url])
    assert outcome.exit_code == 0, outcome.output


def test_drift_when_there_is_some_then_it_is_named(database: Database) -> None:
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("ALTER TABLE tenants DROP COLUMN partition")
    outcome = CliRunner().invoke(database_commands.app, ["check", "--url", database.owner_url])
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert "partition" in str(outcome.exception)


def test_upgrade_when_run_again_then_it_changes_nothing(database: Database) -> None:
    outcome = CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url])
    assert outcome.output.strip() == f"database: {head()}"


def test_upgrade_when_deployments_run_then_they_are_bound_to_the_environment_that_their_application_goes_to(
    database: Database,
) -> None:
    """``web`` runs on ``a`` and is offered ``b``; ``late`` runs on one that is leaving; ``local`` on none."""
    environments = {name: uuid.uuid4() for name in ("a", "b", "leaving")}
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, "0002")
        tenant = uuid.uuid4()
        owner.execute("INSERT INTO engine_instances (id, namespace) VALUES ('one', 'argocd')")
        owner.execute(
            "INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)"
            " VALUES (%s, 'w', 'n', 0, 'one')",
            (tenant,),
        )
        for name, known in environments.items():
            owner.execute(ENVIRONMENT, {"id": known, "tenant": tenant, "name": name, "present": name != "leaving"})
        for name, in_force, newest in (("web", "a", "b"), ("late", "leaving", "leaving"), ("local", "", None)):
            destination = f"managed-env-{environments[in_force]}" if in_force else "in-cluster"
            values = {
                "id": uuid.uuid4(),
                "tenant": tenant,
                "name": name,
                "spec": orjson.dumps({"destination": {"environment": in_force}}).decode(),
                "environment": newest,
                "lane": f"app-project-{tenant}",
                "manifest": orjson.dumps({"spec": {"destination": {"name": destination}}}).decode(),
            }
            owner.execute(DEPLOYMENT, values)
            owner.execute(APPLICATION, values)
    outcome = CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url])
    assert outcome.exit_code == 0, outcome.output
    with psycopg.connect(database.owner_url) as owner:
        bound = dict(owner.execute("SELECT name, environment_id FROM deployments").fetchall())
    assert bound == {"web": environments["a"], "late": environments["leaving"], "local": None}


def test_upgrade_when_there_are_instances_then_they_are_shared_ones_of_the_default_cluster(database: Database) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, "0020")
        owner.execute("INSERT INTO engine_instances (id, namespace, state) VALUES ('one', 'argocd', 'draining')")
    outcome = CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url])
    assert outcome.exit_code == 0, outcome.output
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute(
            "SELECT namespace, engine, engine_cluster, region, engine_class, dedicated_to, ring, capacity, state,"
            " ordered_at = created_at FROM engine_instances"
        ).fetchall()
    assert rows == [("argocd", "argocd", "default", "", "shared", "", "general", 2500, "draining", True)]


def test_upgrade_when_there_are_compiled_rows_then_each_says_which_cluster_its_instance_is_in(
    database: Database,
) -> None:
    """A row of an instance that there never was could be streamed nowhere: it goes."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, "0021")
        owner.execute("INSERT INTO engine_clusters (id, region, created_at) VALUES ('north', '', now())")
        for instance, cluster in (("one", "default"), ("two", "north")):
            owner.execute(INSTANCE, (instance, instance, cluster))
        for name, instance in (("here", "one"), ("there", "two"), ("nowhere", "three")):
            owner.execute(APPLICATION, {"name": name, "lane": "", "manifest": "{}"})
            owner.execute(
                "UPDATE engine_resources SET engine_instance_id = %s WHERE name LIKE %s", (instance, f"%{name}")
            )
    outcome = CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url])
    assert outcome.exit_code == 0, outcome.output
    with psycopg.connect(database.owner_url) as owner:
        rows = dict(owner.execute("SELECT engine_instance_id, engine_cluster FROM engine_resources").fetchall())
        assert rows == {"one": "default", "two": "north"}
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            owner.execute("UPDATE engine_resources SET engine_cluster = 'north' WHERE engine_instance_id = 'one'")


@pytest.fixture
def slot(database: Database, servers: Servers) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection to a database before revision 0022, which somebody streams from, and reads nothing."""
    url = in_database(servers.postgres_admin_url, urlsplit(database.owner_url).path.strip("/"))
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, "0021")
        owner.execute(INSTANCE, ("one", "one", "default"))
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute("SELECT pg_create_logical_replication_slot('of_a_test', 'pgoutput')")
        superuser.execute(APPLICATION, {"name": "web", "lane": "", "manifest": "{}"})
        yield superuser
        superuser.execute("SELECT pg_drop_replication_slot('of_a_test')")


def test_upgrade_when_the_connector_has_not_read_all_rows_then_the_table_stays_as_it_is(
    database: Database, slot: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the connector of this release stopped at the first of them: it has no cluster to be routed by."""
    wait = startup.await_dependency
    monkeypatch.setattr(startup, "await_dependency", lambda what, attempt, _seconds: wait(what, attempt, 0))
    outcome = CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url])
    assert isinstance(outcome.exception, Unavailable)
    assert "it has yet to read" in str(outcome.exception)
    slot.execute(APPLICATION, {"name": "another", "lane": "", "manifest": "{}"})


def test_upgrade_when_the_connector_reads_on_then_it_waits_for_that(
    database: Database, slot: psycopg.Connection[Any]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        upgrade = pool.submit(CliRunner().invoke, database_commands.app, ["upgrade", "--url", database.owner_url])
        locked = "SELECT FROM pg_locks WHERE relation = 'engine_resources'::regclass AND mode = 'ShareLock'"
        until(lambda: slot.execute(locked).fetchone() is not None)
        until(lambda: _has_read_on(slot) and upgrade.done())
    assert upgrade.result().exit_code == 0, upgrade.result().output


def _has_read_on(superuser: psycopg.Connection[Any]) -> bool:
    superuser.execute("SELECT pg_replication_slot_advance('of_a_test', pg_current_wal_lsn())")
    return True


def test_upgrade_when_engines_hold_objects_then_each_is_owned_by_what_it_was_made_for(database: Database) -> None:
    """An order of a run that is gone goes; what is another tenant's by its lane is nobody's."""
    tenant, environment, run, web = (uuid.uuid4() for _ in range(4))
    project = f"app-project-{tenant}"
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, "0003")
        owner.execute("INSERT INTO engine_instances (id, namespace) VALUES ('one', 'argocd')")
        owner.execute(
            "INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id)"
            " VALUES (%s, 'w', 'n', 0, 'one')",
            (tenant,),
        )
        owner.execute(ENVIRONMENT, {"id": environment, "tenant": tenant, "name": "prod", "present": True})
        owner.execute(ENVIRONMENT, {"id": run, "tenant": tenant, "name": "now", "present": True})
        owner.execute("UPDATE resources SET kind = 'GitOpsDeploymentSyncRun' WHERE id = %s", (run,))
        values = {"id": web, "tenant": tenant, "name": "web", "spec": "{}", "environment": None}
        owner.execute(DEPLOYMENT, values)
        owner.execute(APPLICATION, {"name": "web", "lane": project, "manifest": "{}"})
        for kind, name, lane, order in (
            ("AppProject", project, project, None),
            ("AppProject", f"{project}-cluster", project, None),
            ("ClusterSecret", f"managed-env-{environment}", project, None),
            ("RepositorySecret", f"managed-env-{environment}", "app-project-of-another", None),
            ("SyncOperation", "gitopsdepl-web", project, "now"),
            ("SyncOperation", "gitopsdepl-old", project, "gone"),
        ):
            manifest = orjson.dumps({"operation": {"run": order}}).decode()
            owner.execute(APPLICATION, {"name": name, "lane": lane, "manifest": manifest})
            owner.execute(
                "UPDATE engine_resources SET kind = %s, name = %s WHERE name = 'gitopsdepl-' || %s", (kind, name, name)
            )
    outcome = CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url])
    assert outcome.exit_code == 0, outcome.output
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT kind, owner_kind, owner_id FROM engine_resources").fetchall()
    assert sorted(rows, key=str) == sorted(
        [
            ("Application", "GitOpsDeployment", web),
            ("AppProject", "Tenant", tenant),
            ("AppProject", "Tenant", tenant),
            ("ClusterSecret", "GitOpsDeploymentManagedEnvironment", environment),
            ("RepositorySecret", "", uuid.UUID(int=0)),
            ("SyncOperation", "GitOpsDeploymentSyncRun", run),
        ],
        key=str,
    )


STATUS = """
INSERT INTO {} (workspace, namespace, kind, name, uid, generation, status, release_finalizer, digest, trace_id,
                seen_at, updated_at)
VALUES (%s, 'n', 'GitOpsDeployment', %s, 'u', 1, '{{}}', false, 'd', '', now(), now())
    ON CONFLICT (workspace, namespace, kind, name) DO UPDATE SET digest = EXCLUDED.digest
"""
CHILD_OBJECT = """
INSERT INTO workspace_objects (workspace, namespace, kind, name, desired, uid, owner_api_version, owner_kind,
                               owner_name, owner_uid, manifest, digest, revision, trace_id, seen_at, updated_at,
                               live_version)
VALUES (%s, 'n', 'GitOpsDeployment', 'web', 'present', '', 'v', 'k', 'o', 'u', '{}', 'd', 1, '', now(), now(), '')
"""
BEFORE_CHILD_OBJECTS = "0034"
BEFORE, NOW = STATUS.format("workspace_resources"), STATUS.format("workspace_statuses")


def test_upgrade_when_statuses_exist_then_planners_of_before_and_of_now_write_to_the_same(database: Database) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, "0010")
        owner.execute(BEFORE, ("w", "old"))
    assert CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url]).exit_code == 0
    with psycopg.connect(database.planner_url, autocommit=True) as planner:
        planner.execute(BEFORE, ("w", "by a planner of before"))
        planner.execute(NOW, ("w", "new"))
        for query in ("SELECT name FROM workspace_resources", "SELECT name FROM workspace_statuses"):
            names = planner.execute(query).fetchall()
            assert {name for (name,) in names} == {"old", "by a planner of before", "new"}


def test_downgrade_when_workspaces_were_added_then_no_status_is_lost(database: Database) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(NOW, ("w", "old"))
        assert workspaces._move_rows(database.owner_url, "w") == 1
        owner.execute(NOW, ("w", "new"))
        owner.execute(NOW, ("other", "web"))
        with database_commands._connected(database.owner_url, 10) as connection:
            command.downgrade(database_commands._config(connection), "0010")
        assert owner.execute("SELECT count(*) FROM workspace_resources").fetchone() == (3,)


def test_workspace_when_added_then_its_table_is_visible_before_any_row_is_moved_to_it(database: Database) -> None:
    """Connect asks for the keys of a table as soon as it has read a row of it."""
    with (
        psycopg.connect(database.owner_url, autocommit=True) as owner,
        psycopg.connect(database.owner_url) as reader,
        ThreadPoolExecutor() as pool,
    ):
        owner.execute(NOW, ("w", "old"))
        reader.execute("SELECT FROM workspace_statuses")
        moved = pool.submit(workspaces._move_rows, database.owner_url, "w")
        while owner.execute("SELECT to_regclass('workspace_resources_w')").fetchone() == (None,):
            assert not moved.done(), moved.result()
        assert not moved.done()
        reader.rollback()
        assert moved.result() == 1


def test_workspace_when_it_was_added_before_there_were_child_objects_then_it_gets_their_partition_the_next_time(
    database: Database,
) -> None:
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        recreate(owner, database.owner_url, BEFORE_CHILD_OBJECTS)
        owner.execute(NOW, ("w", "old"))
        assert workspaces._move_rows(database.owner_url, "w") == 1
    assert CliRunner().invoke(database_commands.app, ["upgrade", "--url", database.owner_url]).exit_code == 0
    with psycopg.connect(database.planner_url, autocommit=True) as planner:
        planner.execute(CHILD_OBJECT, ("w",))
        planner.execute(CHILD_OBJECT, ("w2",))
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        assert workspaces._move_rows(database.owner_url, "w") == 1
        assert workspaces._move_rows(database.owner_url, "w") is None
        for table, names in (("workspace_objects_w", ["w"]), ("other_workspace_objects", ["w2"])):
            rows = owner.execute(sql.SQL("SELECT workspace FROM {}").format(sql.Identifier(table))).fetchall()
            assert [name for (name,) in rows] == names


def test_workspace_when_adding_it_ended_after_its_table_then_it_is_added_the_next_time(database: Database) -> None:
    with psycopg.connect(database.owner_url) as owner:
        workspaces.make_tables(owner, "w")
        owner.execute(NOW, ("w", "old"))
    assert workspaces._move_rows(database.owner_url, "w") == 1
    assert workspaces._move_rows(database.owner_url, "w") is None


def test_tables_when_workspaces_were_added_then_there_is_no_drift(database: Database) -> None:
    assert workspaces._move_rows(database.owner_url, "A.b_c-d") == 0
    assert workspaces._move_rows(database.owner_url, "A.b_c-d") is None
    outcome = CliRunner().invoke(database_commands.app, ["check", "--url", database.owner_url])
    assert outcome.exit_code == 0, outcome.output


def recreate(owner: psycopg.Connection[Any], url: str, revision: str) -> None:
    """The database, empty, at an older revision."""
    for statement in ("DROP PUBLICATION gitops_compiled", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public"):
        owner.execute(statement)
    with database_commands._connected(url, 10) as connection:
        command.upgrade(database_commands._config(connection), revision)


def test_publication_when_made_then_it_holds_the_streamed_tables(database: Database) -> None:
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT prrelid::regclass::text FROM pg_publication_rel").fetchall()
    assert {name for (name,) in rows} == {table.name for table in STREAMED}


def test_replication_when_granted_then_it_reads_what_is_streamed_and_writes_what_debezium_must(
    database: Database,
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        assert dict(owner.execute(GRANTS, ("gitops_replication",)).fetchall()) == {
            "engine_clusters": "SELECT",
            "engine_pools": "SELECT",
            "engine_instances": "SELECT",
            "engine_resources": "SELECT",
            "workspace_assignments": "SELECT",
            "tenant_pins": "SELECT",
            "workspace_resources": "SELECT",
            "other_workspace_objects": "SELECT",
            "pending_claims": "SELECT",
            "tenant_clusters": "SELECT",
            "debezium_signals": "DELETE INSERT SELECT",
            "debezium_heartbeat": "INSERT SELECT UPDATE",
        }


def test_revision_when_it_differs_then_the_remedy_is_named(database: Database) -> None:
    check_database(database.planner_url, head())
    with pytest.raises(InvalidConfiguration, match="gitopsctl database upgrade"):
        check_database(database.planner_url, "of_the_future")


def test_engines_when_applied_twice_then_new_ones_are_added_and_states_kept(database: Database) -> None:
    run = CliRunner().invoke
    assert run(engine_commands.app, ["apply", "--url", database.owner_url, "--namespaces", "a,b=old"]).exit_code == 0
    with psycopg.connect(database.owner_url) as owner:
        owner.execute("UPDATE engine_instances SET state = 'draining' WHERE id = 'a'")
        owner.commit()
        assert (
            run(engine_commands.app, ["apply", "--url", database.owner_url, "--namespaces", "a,b=new,c"]).exit_code == 0
        )
        rows = owner.execute("SELECT id, namespace, state FROM engine_instances ORDER BY id").fetchall()
    assert rows == [("a", "a", "draining"), ("b", "new", "accepting"), ("c", "c", "accepting")]


def test_engine_when_it_has_tenants_then_it_cannot_move(database: Database) -> None:
    run = CliRunner().invoke
    assert run(engine_commands.app, ["apply", "--url", database.owner_url, "--namespaces", "a=old"]).exit_code == 0
    with psycopg.connect(database.owner_url) as owner:
        owner.execute(
            "INSERT INTO tenants (id, workspace, namespace, partition, engine_instance_id, created_at)"
            " VALUES (gen_random_uuid(), 'w', 'n', 0, 'a', now())"
        )
    refused = run(engine_commands.app, ["apply", "--url", database.owner_url, "--namespaces", "a=new"])
    assert isinstance(refused.exception, InvalidConfiguration)
    assert "a is in old" in str(refused.exception)
