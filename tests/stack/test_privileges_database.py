"""With a role's own password, what it must not do is refused by the real database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from devstack.harness.hosted import HostedStack
from services.common.errors import Retry
from services.common.startup import await_dependency

CLOSED_SECONDS = 45.0
PLANNER_MAY = (
    "SELECT FROM deployments",
    "UPDATE engine_clusters SET state = state",
    "UPDATE engine_instances SET state = state",
    "SELECT FROM resources, checks, sync_runs",
    "INSERT INTO consumer_offsets VALUES ('t', 0, 0)",
    "UPDATE engine_resources SET digest = digest",
    "DELETE FROM workspace_statuses WHERE false",
    "DELETE FROM workspace_objects WHERE false",
)
PLANNER_MAY_NOT = (
    "CREATE TABLE mine ()",
    "SELECT lo_create(0)",
    "CREATE TEMPORARY TABLE mine ()",
    "CREATE SCHEMA mine",
    "CREATE ROLE mine",
    "CREATE PUBLICATION mine FOR TABLE tenants",
    "ALTER TABLE deployments ADD COLUMN mine text",
    "TRUNCATE deployments",
    "UPDATE alembic_version SET version_num = 'mine'",
    "SELECT FROM debezium_signals",
    "INSERT INTO debezium_signals VALUES ('1', 'execute-snapshot', '{}')",
    "SELECT FROM debezium_heartbeat",
    "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')",
    "SELECT pg_read_file('postgresql.conf')",
    "COPY deployments TO PROGRAM 'true'",
    "SET ROLE gitops_owner",
    "SELECT rolpassword FROM pg_authid",
    "CREATE TABLE mine PARTITION OF workspace_statuses FOR VALUES IN ('mine')",
    "CREATE TABLE mine PARTITION OF workspace_objects FOR VALUES IN ('mine')",
)
REPLICATION_MAY = (
    "SELECT FROM engine_instances",
    "SELECT FROM engine_resources",
    "SELECT FROM workspace_resources",
    "SELECT FROM workspace_resources_local",
    "SELECT FROM other_workspace_objects",
    "SELECT FROM workspace_objects_local",
    "INSERT INTO debezium_heartbeat VALUES ((random() * 1000000000)::int4, now())",
    "INSERT INTO debezium_signals VALUES (gen_random_uuid()::text, 'log', '{}')",
)
REPLICATION_MAY_NOT = (
    "SELECT FROM tenants",
    "SELECT FROM deployments",
    "SELECT FROM resources",
    "SELECT FROM checks",
    "SELECT FROM sync_runs",
    "SELECT FROM observed_states",
    "SELECT FROM audit_records",
    "SELECT FROM consumer_offsets",
    "SELECT FROM engine_health",
    "SELECT FROM fleet_orders",
    "SELECT FROM moves",
    "UPDATE engine_clusters SET state = state",
    "UPDATE engine_instances SET state = state",
    "UPDATE engine_resources SET digest = digest",
    "DELETE FROM workspace_resources",
    "DELETE FROM workspace_resources_local",
    "DELETE FROM workspace_objects_local",
    "DELETE FROM workspace_statuses",
    "CREATE TABLE mine ()",
    "SELECT lo_create(0)",
    "ALTER PUBLICATION gitops_compiled ADD TABLE tenants",
    "CREATE PUBLICATION mine FOR ALL TABLES",
    "SET ROLE gitops_owner",
    "SELECT pg_read_file('postgresql.conf')",
)
BACKUP_MAY = ("SELECT FROM deployments", "SELECT FROM workspace_resources_local", "SELECT FROM consumer_offsets")
BACKUP_MAY_NOT = (
    "DELETE FROM deployments",
    "UPDATE consumer_offsets SET next_offset = 0",
    "INSERT INTO debezium_signals VALUES ('1', 'execute-snapshot', '{}')",
    "CREATE TABLE mine ()",
    "SELECT lo_create(0)",
    "SELECT rolpassword FROM pg_authid",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')",
    "SET ROLE gitops_owner",
)
READER_MAY = (
    "SELECT FROM engine_instances, engine_health, moves, rollouts, tenants",
    "SELECT count(spec) FROM deployments",
    "SELECT lane, kind, count(*) FROM engine_resources GROUP BY lane, kind",
    "SELECT message FROM past_remedies",
    "SELECT id, name FROM resources",
)
READER_MAY_NOT = (
    "SELECT manifest FROM engine_resources",
    "SELECT environment FROM deployments",
    "SELECT message FROM audit_records",
    "SELECT name FROM deployments",
    "SELECT spec FROM resources",
    "SELECT secret_binding FROM resources",
    "SELECT FROM workspace_statuses",
    "SELECT FROM parked_events",
    "SELECT FROM engine_instances FOR UPDATE",
    "UPDATE engine_clusters SET state = state",
    "UPDATE engine_instances SET state = state",
    "INSERT INTO fleet_orders SELECT * FROM fleet_orders",
    "DELETE FROM moves",
    "CREATE TABLE mine ()",
    "SELECT lo_create(0)",
    "SET ROLE gitops_owner",
    "SELECT rolpassword FROM pg_authid",
    "SELECT pg_read_file('postgresql.conf')",
)
OWNER_MAY_NOT = (
    "CREATE ROLE mine",
    "CREATE DATABASE mine",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')",
    "ALTER ROLE gitops_owner SUPERUSER",
    "SET ROLE gitops_planner",
)


@pytest.fixture
def as_role(infrastructure: HostedStack) -> Callable[[str], psycopg.Connection]:
    """A connection of a role of ours; what it does is rolled back."""
    secrets = infrastructure.state.secrets()

    def open_as(role: str, database: str = "gitops") -> psycopg.Connection:
        url = infrastructure.environment["DATABASE_OWNER_URL"]
        try:
            return psycopg.connect(url, user=f"gitops_{role}", password=secrets[role], dbname=database)
        except psycopg.OperationalError as error:
            if "too many connections" in str(error):  # one that was closed counts until its process has ended
                raise Retry(str(error)) from error
            raise

    return lambda *arguments: await_dependency("database", lambda: open_as(*arguments), CLOSED_SECONDS)


@pytest.mark.parametrize(
    ("role", "statement"),
    [("planner", text) for text in PLANNER_MAY]
    + [("replication", text) for text in REPLICATION_MAY]
    + [("backup", text) for text in BACKUP_MAY]
    + [("reader", text) for text in READER_MAY],
)
def test_database_when_a_role_does_its_work_then_it_may(
    as_role: Callable[[str], psycopg.Connection], role: str, statement: Any
) -> None:
    connection = as_role(role)
    try:
        connection.execute(statement)
    finally:
        connection.rollback()
        connection.close()


@pytest.mark.parametrize(
    ("role", "statement"),
    [("planner", text) for text in PLANNER_MAY_NOT]
    + [("replication", text) for text in REPLICATION_MAY_NOT]
    + [("backup", text) for text in BACKUP_MAY_NOT]
    + [("reader", text) for text in READER_MAY_NOT]
    + [("owner", text) for text in OWNER_MAY_NOT],
)
def test_database_when_a_role_does_more_than_its_work_then_it_is_refused(
    as_role: Callable[[str], psycopg.Connection], role: str, statement: Any
) -> None:
    connection = as_role(role)
    # CREATE DATABASE asks whether it is in a transaction before it asks who calls.
    connection.autocommit = True
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)
    finally:
        connection.close()


@pytest.mark.parametrize("database", ["postgres", "template1"])
@pytest.mark.parametrize("role", ["planner", "replication", "backup", "reader", "owner"])
def test_database_when_it_is_not_ours_then_no_role_may_enter(
    as_role: Callable[..., psycopg.Connection], role: str, database: str
) -> None:
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        as_role(role, database)


def test_planner_when_a_statement_hangs_then_the_database_ends_it(
    as_role: Callable[[str], psycopg.Connection],
) -> None:
    with as_role("planner") as connection:
        limits = [connection.execute(f"SHOW {name}").fetchone() for name in ("statement_timeout", "lock_timeout")]
    assert limits == [("1min",), ("30s",)]
