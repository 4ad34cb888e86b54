"""Databases of tests are used again, and no test finds what another has left in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest

from services.planner.database.requirements import head
from tests.component.conftest import Servers
from tests.component.databases import Databases

pytestmark = pytest.mark.short

IDENTITY = "SELECT oid FROM pg_database WHERE datname = current_database()"
WEST = "INSERT INTO engine_clusters VALUES ('west', '', now(), 'active', now())"
PARKED = """
WITH parked AS (
    INSERT INTO parked_tenants (tenant_id, workspace, namespace, partition, error, parked_at)
    VALUES ('00000000-0000-0000-0000-000000000001', 'teams', 'parked', 1, 'e', now()) RETURNING tenant_id
) INSERT INTO parked_events (tenant_id, partition, trace_id, message)
SELECT tenant_id, 1, '', '{}' FROM parked RETURNING number
"""

Owner = psycopg.Connection[Any]
Taken = Callable[[], AbstractContextManager[Owner]]


@pytest.fixture
def taken(servers: Servers, databases: Databases) -> Taken:
    """Takes a database, and connects to it as its owner."""

    @contextmanager
    def take() -> Iterator[Owner]:
        with databases.taken() as name:
            yield psycopg.connect(servers.database(name).owner_url, autocommit=True)

    return take


def one(owner: Owner, query: str) -> Any:
    (row,) = owner.execute(query).fetchall()  # type: ignore[arg-type]
    return row[0]


def test_database_when_it_is_used_again_then_it_holds_what_a_migrated_one_does(taken: Taken) -> None:
    with taken() as owner:
        used = one(owner, IDENTITY)
        owner.execute(WEST)
    with taken() as owner:
        assert one(owner, IDENTITY) == used
        assert one(owner, "SELECT id FROM engine_clusters") == "default"
        assert one(owner, "SELECT version_num FROM alembic_version") == head()


def test_database_when_it_is_used_again_then_it_counts_from_one(taken: Taken) -> None:
    for _ in range(2):
        with taken() as owner:
            assert one(owner, PARKED) == 1


def test_database_when_a_test_has_left_a_transaction_open_then_it_is_ended(taken: Taken) -> None:
    with taken() as owner:
        owner.autocommit = False
        owner.execute(WEST)
    with pytest.raises(psycopg.OperationalError, match="administrator command"):
        owner.commit()
    with taken() as owner:
        assert one(owner, "SELECT id FROM engine_clusters") == "default"


def test_database_when_a_test_still_runs_then_it_does_not_reach_the_next_one(taken: Taken) -> None:
    with taken() as owner:
        address = owner.info.dsn, owner.info.password
    with taken(), pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(address[0], password=address[1])


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE workspace_resources_teams PARTITION OF workspace_statuses FOR VALUES IN ('teams')",
        "DROP TABLE parked_events",
        "ALTER TABLE tenants ADD column extra text",
        "GRANT SELECT ON tenants TO gitops_replication",
        "CREATE FUNCTION one() RETURNS int LANGUAGE sql RETURN 1",
        "ALTER ROLE CURRENT_USER IN DATABASE {} SET statement_timeout = 1",
        "REVOKE CONNECT ON DATABASE {} FROM PUBLIC",
        "ANALYZE engine_clusters",
        "INSERT INTO engine_clusters SELECT n::text, '', now(), 'active', now() FROM generate_series(1, 20000) n",
    ],
)
def test_database_when_more_than_a_few_rows_has_changed_then_it_is_not_used_again(taken: Taken, change: str) -> None:
    with taken() as owner:
        used = one(owner, IDENTITY)
        owner.execute(change.format(owner.info.dbname))  # type: ignore[arg-type]
    with taken() as owner:
        assert one(owner, IDENTITY) != used
