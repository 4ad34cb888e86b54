"""``gitopsctl engines``: the fleet of engine instances that tenants are placed on."""

from __future__ import annotations

import typer

from services.cli.owner_connection import TIMEOUT, URL, connected
from services.common.errors import InvalidConfiguration
from services.common.settings import parse_engine_namespaces
from services.common.startup import await_dependency

app = typer.Typer(help="Engine instances.", no_args_is_help=True)

NAMESPACES = typer.Option(
    ..., envvar="ENGINE_NAMESPACES", help="id=namespace, comma separated; a bare namespace is its own id."
)

UPSERT = """
INSERT INTO engine_instances AS known (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                                       dedicated_to, ring, capacity, ordered_at)
SELECT id, namespace, 'accepting', now(), 'argocd', 'default', '', 'shared', '', 'general', 2500, now()
  FROM unnest(%s::text[], %s::text[]) AS wanted(id, namespace)
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
    instances = engine_namespaces(namespaces)
    await_dependency("database", lambda: _write(url, instances), timeout)
    for instance, namespace in instances.items():
        typer.echo(f"{instance}: namespace {namespace}")


def engine_namespaces(text: str) -> dict[str, str]:
    """Namespace by engine instance id. Raises InvalidConfiguration."""
    try:
        return parse_engine_namespaces(text)
    except ValueError as error:
        raise InvalidConfiguration(f"ENGINE_NAMESPACES: {error}") from error


def _write(url: str, instances: dict[str, str]) -> None:
    arguments = (list(instances), list(instances.values()))
    with connected(url) as connection:
        connection.execute(UPSERT, arguments)
        moved = connection.execute(MOVED, arguments).fetchall()
    if moved:
        places = ", ".join(f"{instance} is in {namespace}" for instance, namespace in moved)
        raise InvalidConfiguration(
            f"ENGINE_NAMESPACES: an instance that has tenants cannot move ({places}); add it under another id"
        )
