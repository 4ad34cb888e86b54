"""``gitopsctl engines placement``: on which instances a tenant is, since when, and what of it is on each."""

from __future__ import annotations

import typer

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.output import OUTPUT, Output, Row, print_rows
from services.common.errors import InvalidConfiguration
from services.common.startup import await_dependency
from services.planner.database.fleet_queries import PART_NAME, WITH_PARTS, load_tenants_on
from services.planner.rows.tenants import PART

TENANT = typer.Argument(..., metavar="NAMESPACE", help="Namespace of the tenant.")
WORKSPACE = typer.Option("local", "--workspace", help="Its workspace.")
# What waits, or is refused, is on no instance yet. Without a move a tenant was placed there first, or came longer ago
# than moves are kept. A pin keeps what is on the tenant's own instance.
PLACEMENT = f"""
SELECT t.workspace, {PART_NAME} AS name, coalesce(nullif(on_one.id, ''), t.engine_instance_id) AS instance,
       count(d.spec) AS deployments, count(d.spec) FILTER (WHERE d.environment_id IS NULL) AS without,
       (SELECT max(m.step_since) FROM moves m
         WHERE m.tenant_id = t.id AND m.target = coalesce(nullif(on_one.id, ''), t.engine_instance_id)
           AND m.step = 'done') AS moved_at,
       min(pin.pinned_at) AS pinned_at,
       coalesce(array_agg(DISTINCT e.name) FILTER (WHERE d.spec IS NOT NULL AND e.name IS NOT NULL), '{{}}')
       AS environments
  FROM tenants t
 {WITH_PARTS}
  LEFT JOIN resources e ON e.id = d.environment_id
  LEFT JOIN tenant_pins pin ON (pin.workspace, pin.namespace, on_one.id) = (t.workspace, t.namespace, '')
 WHERE (t.workspace, t.namespace) = (%s, %s) AND t.former_since = 0
 GROUP BY t.id, on_one.id
 ORDER BY on_one.id
"""  # noqa: S608 - of constants
COLUMNS = {
    "workspace": "workspace",
    "name": "name",
    "instance": "instance",
    "deployments": "deployments",
    "withoutEnvironment": "without environment",
    "movedAt": "moved there",
    "pinnedAt": "pinned",
    "environments": "environments",
}


def placement(
    namespace: str = TENANT,
    workspace: str = WORKSPACE,
    output: Output = OUTPUT,
    url: str = READING_URL,
    timeout: float = TIMEOUT,
) -> None:
    """Show on which instances a tenant is: its own first, then each part of one that is too large for that.

    The name is that by which orders know what is there. With it: when a move last ended there, as far as moves are
    kept, and since when it is pinned.
    """
    rows = await_dependency("database", lambda: _placement(url, workspace, namespace), timeout)
    if not rows:
        raise InvalidConfiguration(
            f"there is no tenant {workspace}/{namespace}: one is placed when it has its first resource"
        )
    print_rows(rows, COLUMNS, output, nothing="")


def parts_on(url: str, instance: str) -> list[str]:
    """What split tenants have on an instance that is not their own. Raises Retry."""
    with connected(url) as connection:
        names = load_tenants_on(connection, [instance]).on([instance])
    return sorted(f"{workspace}/{name}" for workspace, name in names if PART in name)


def _placement(url: str, workspace: str, namespace: str) -> list[Row]:
    with connected(url) as connection:
        found = connection.execute(PLACEMENT, (workspace, namespace)).fetchall()
    return [dict(zip(COLUMNS, (*rest, sorted(environments)), strict=True)) for *rest, environments in found]
