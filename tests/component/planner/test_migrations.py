"""The migrations, on a real PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest
from alembic.script import ScriptDirectory
from typer.testing import CliRunner

from services.cli import database as database_commands
from services.cli import engines as engine_commands
from services.common.errors import InvalidConfiguration
from services.common.paths import MIGRATIONS
from services.planner.revision import check_revision, head
from services.planner.tables import STREAMED
from tests.component.conftest import Database

GRANTS = """
SELECT table_name, string_agg(privilege_type, ' ' ORDER BY privilege_type)
  FROM information_schema.role_table_grants WHERE grantee = %s GROUP BY table_name
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


def test_publication_when_made_then_it_holds_the_four_streamed_tables(database: Database) -> None:
    with psycopg.connect(database.owner_url) as owner:
        rows = owner.execute("SELECT tablename FROM pg_publication_tables WHERE pubname = 'gitops_compiled'").fetchall()
    assert {name for (name,) in rows} == {table.name for table in STREAMED}


def test_replication_when_granted_then_it_reads_what_is_streamed_and_writes_what_debezium_must(
    database: Database,
) -> None:
    with psycopg.connect(database.owner_url) as owner:
        assert dict(owner.execute(GRANTS, ("gitops_replication",)).fetchall()) == {
            "engine_resources": "SELECT",
            "workspace_resources": "SELECT",
            "debezium_signals": "DELETE INSERT SELECT",
            "debezium_heartbeat": "INSERT SELECT UPDATE",
        }


def test_revision_when_it_differs_then_the_remedy_is_named(database: Database) -> None:
    check_revision(database.planner_url, head())
    with pytest.raises(InvalidConfiguration, match="gitopsctl database upgrade"):
        check_revision(database.planner_url, "of_the_future")


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
