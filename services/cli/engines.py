"""``gitopsctl engines``: the fleet of engine instances that tenants are placed on."""

from __future__ import annotations

import psycopg
import typer

from services.common.errors import InvalidConfiguration, Retry
from services.common.settings import parse_engine_namespaces
from services.common.startup import await_dependency

app = typer.Typer(help="Engine instances.", no_args_is_help=True)

URL = typer.Option(..., envvar="DATABASE_OWNER_URL", help="postgresql://gitops_owner:…@host:port/gitops")
NAMESPACES = typer.Option(
    ..., envvar="ENGINE_NAMESPACES", help="id=namespace, comma separated; a bare namespace is its own id."
)
TIMEOUT = typer.Option(30.0, help="Seconds to wait for the database.")

UPSERT = """
INSERT INTO engine_instances AS known (id, namespace)
SELECT * FROM unnest(%s::text[], %s::text[])
    ON CONFLICT (id) DO UPDATE SET namespace = EXCLUDED.namespace
 WHERE known.namespace <> EXCLUDED.namespace
   AND NOT EXISTS (SELECT FROM tenants WHERE engine_instance_id = known.id)
"""
MOVED = """
SELECT known.id, known.namespace
  FROM engine_instances AS known JOIN unnest(%s::text[], %s::text[]) AS wanted(id, namespace) USING (id)
 WHERE known.namespace <> wanted.namespace
"""


# A group even while it has a single command: `gitopsctl engines apply`.
@app.callback()
def engines() -> None:
    """Engine instances."""


@app.command()
def apply(url: str = URL, namespaces: str = NAMESPACES, timeout: float = TIMEOUT) -> None:
    """Add the instances that are not known yet. Never removes one: its tenants would be lost with it."""
    try:
        instances = parse_engine_namespaces(namespaces)
    except ValueError as error:
        raise InvalidConfiguration(f"ENGINE_NAMESPACES: {error}") from error
    await_dependency("database", lambda: _write(url, instances), timeout)
    for instance, namespace in instances.items():
        typer.echo(f"{instance}: namespace {namespace}")


def _write(url: str, instances: dict[str, str]) -> None:
    try:
        with psycopg.connect(url) as connection:
            arguments = (list(instances), list(instances.values()))
            connection.execute(UPSERT, arguments)
            moved = connection.execute(MOVED, arguments).fetchall()
    except psycopg.OperationalError as error:
        raise Retry(str(error)) from error
    except psycopg.errors.UndefinedTable as error:
        raise InvalidConfiguration("the database is empty; run 'gitopsctl database upgrade'") from error
    except psycopg.ProgrammingError as error:
        # Without a primary message it is the URL that cannot be parsed, and the text shows parts of the password.
        reason = error.diag.message_primary or "not a URL of PostgreSQL; write postgresql://user:…@host:port/name"
        raise InvalidConfiguration(f"DATABASE_OWNER_URL: {reason}") from None
    if moved:
        places = ", ".join(f"{instance} is in {namespace}" for instance, namespace in moved)
        raise InvalidConfiguration(
            f"ENGINE_NAMESPACES: an instance that has tenants cannot move ({places}); add it under another id"
        )
