"""What ``gitopsctl audit`` asks, on a real PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from services.cli.audit import Question, audit_records, query
from services.cli.filters import ResourceFilter
from services.common.errors import InvalidConfiguration
from tests.component.conftest import Database
from tests.unit.planner.given import at

WEB = ResourceFilter("GitOpsDeployment", "web")
FILL = """
INSERT INTO audit_records (id, deployment_id, workspace, namespace, kind, name, generation, action, actor, state,
                           message, trace_id, created_at, updated_at)
SELECT gen_random_uuid(), gen_random_uuid(), 'local', 'team-' || n %% %(tenants)s, 'GitOpsDeployment',
       CASE WHEN n %% 2 = 0 THEN 'web' ELSE 'api' END, n, 'update', 'kubectl', 'Completed', '', '',
       %(at)s + n * interval '1 second', now()
  FROM generate_series(1, %(rows)s) AS n
"""


@pytest.fixture
def audited(database: Database) -> Database:
    """Records of 20 tenants, one each second in turn: 1,000 each."""
    with psycopg.connect(database.owner_url, autocommit=True) as owner:
        owner.execute(FILL, {"tenants": 20, "rows": 20_000, "at": at(0)})
        owner.execute("ANALYZE audit_records")
    return database


def test_audit_when_filtered_then_the_newest_come_first_and_nothing_else(audited: Database) -> None:
    question = Question(("local", "team-4"), WEB, at(0) + timedelta(seconds=19_000))
    found = audit_records(audited.owner_url, question, limit=3)
    assert [(row["tenant"], row["resource"], row["generation"]) for row in found] == [
        ("local/team-4", "GitOpsDeployment/web", number) for number in (19_984, 19_964, 19_944)
    ]
    assert [row["at"] for row in found] == [at(0) + timedelta(seconds=number) for number in (19_984, 19_964, 19_944)]


def test_audit_when_a_tenant_is_asked_for_then_only_its_newest_records_are_read(audited: Database) -> None:
    statement, values = query(Question(("local", "team-4")), 101)
    with psycopg.connect(audited.owner_url) as owner:
        plan = "\n".join(line for (line,) in owner.execute("EXPLAIN " + statement.as_string(owner), values))
    assert "Index Scan Backward using audit_records_workspace_namespace_created_at_idx" in plan


def test_audit_when_the_tenant_was_never_there_then_the_error_names_it(audited: Database) -> None:
    with pytest.raises(InvalidConfiguration, match="no tenant local/team-99"):
        audit_records(audited.owner_url, Question(("local", "team-99")), limit=1)
