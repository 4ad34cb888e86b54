"""``gitopsctl audit``: who changed what, when, and what came of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import typer
from psycopg import Connection, sql
from psycopg.rows import dict_row

from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.filters import (
    SINCE,
    TENANT,
    ResourceFilter,
    parse_resource,
    parse_since,
    parse_tenant,
)
from services.cli.output import OUTPUT, Output, Row, print_rows, tell
from services.common.errors import InvalidConfiguration
from services.common.startup import await_dependency
from services.planner.rows.tenants import TenantName

app = typer.Typer(help="Who changed what, when, and what came of it.")

RESOURCE = typer.Option(None, "--resource", metavar="KIND/NAME", help="Only of resources of this kind and name.")
LIMIT = typer.Option(100, "--limit", min=1, max=100_000, help="How many at most, the newest first.")

RECORDS = """
SELECT created_at AS at, workspace || '/' || namespace AS tenant, kind || '/' || name AS resource, generation, action,
       actor AS manager, state AS outcome, updated_at AS "outcomeAt", message, trace_id AS traceparent
  FROM audit_records
 WHERE {conditions}
 ORDER BY created_at DESC, id
 LIMIT {limit}
"""
IS_KNOWN = """
SELECT EXISTS (SELECT FROM tenants WHERE (workspace, namespace) = (%(workspace)s, %(namespace)s))
    OR EXISTS (SELECT FROM audit_records WHERE (workspace, namespace) = (%(workspace)s, %(namespace)s))
"""
COLUMNS = {
    "at": "seen at",
    "tenant": "tenant",
    "resource": "resource",
    "generation": "generation",
    "action": "action",
    "manager": "field manager",
    "outcome": "outcome",
    "outcomeAt": "outcome at",
    "message": "message",
}


class Question(NamedTuple):
    """What is asked of the audit; None: of all."""

    tenant: TenantName | None = None
    resource: ResourceFilter | None = None
    since: datetime | None = None


@app.callback(invoke_without_command=True)
def audit(
    *,
    tenant: str | None = TENANT,
    resource: str | None = RESOURCE,
    since: str | None = SINCE,
    limit: int = LIMIT,
    output: Output = OUTPUT,
    url: str = URL,
    timeout: float = TIMEOUT,
) -> None:
    """List changes of resources, the newest first: who made them, which generation they are of, what came of them.

    Who: the field manager that the API server has recorded, such as kubectl; '-' if it has recorded none. Which user
    that was, only the API server's own audit log knows. 'resync' is a complete list that lacked the resource,
    'replaced' another one of the same name, and 'restored' a backup of the API server, which has an older one of it.
    """
    question = Question(
        parse_tenant(tenant) if tenant is not None else None,
        parse_resource(resource) if resource is not None else None,
        parse_since(since, datetime.now(UTC)) if since is not None else None,
    )
    rows = await_dependency("database", lambda: audit_records(url, question, limit + 1), timeout)
    print_rows(rows[:limit], COLUMNS, output, nothing="no change is recorded")
    if len(rows) > limit:
        tell(f"audit: there are more than these {limit}; --since or --limit shows others")


def audit_records(url: str, question: Question, limit: int) -> list[Row]:
    """The newest ``limit`` records. Raises InvalidConfiguration if there was never such a tenant, Retry."""
    statement, values = query(question, limit)
    with connected(url) as connection:
        _check_tenant(connection, question.tenant)
        with connection.cursor(row_factory=dict_row) as cursor:
            return list(cursor.execute(statement, values))


def query(question: Question, limit: int) -> tuple[sql.Composed, dict[str, Any]]:
    """The statement with its parameters."""
    conditions, values = [sql.SQL("true")], dict[str, Any]()
    if question.tenant is not None:
        conditions.append(sql.SQL("(workspace, namespace) = (%(workspace)s, %(namespace)s)"))
        values |= dict(zip(("workspace", "namespace"), question.tenant, strict=True))
    if question.resource is not None:
        conditions.append(sql.SQL("(kind, name) = (%(kind)s, %(name)s)"))
        values |= question.resource._asdict()
    if question.since is not None:
        conditions.append(sql.SQL("created_at >= %(since)s"))
        values["since"] = question.since
    statement = sql.SQL(RECORDS).format(conditions=sql.SQL(" AND ").join(conditions), limit=sql.Literal(limit))
    return statement, values


def _check_tenant(connection: Connection[Any], tenant: TenantName | None) -> None:
    if tenant is None:
        return
    workspace, namespace = tenant
    row = connection.execute(IS_KNOWN, {"workspace": workspace, "namespace": namespace}).fetchone()
    if row is None or not row[0]:
        raise InvalidConfiguration(f"--tenant: there is no tenant {workspace}/{namespace}, nor is one in the audit")
