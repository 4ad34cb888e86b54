"""``gitopsctl tenants``: tenants that need an operator."""

from __future__ import annotations

from datetime import datetime

import typer

from services.cli.database_connection import TIMEOUT, URL, connected
from services.common.startup import await_dependency

app = typer.Typer(help="Tenants that need an operator.", no_args_is_help=True)

PARKED = """
SELECT workspace || '/' || namespace, parked_at, error,
       (SELECT count(*) FROM parked_events stored WHERE stored.tenant_id = parked.tenant_id)
  FROM parked_tenants parked ORDER BY parked_at
"""
HELP = (
    "If there is no engine instance for it, add one, or see 'gitopsctl engines assignments': it is placed at once.\n"
    "Report any other error, and roll out a planner in which it is mended: what is kept is planned when it takes the\n"
    "partition up. Every planner tries again each ten minutes, and when it starts. Delete nothing of them."
)


# A group even while it has a single command: `gitopsctl tenants parked`.
@app.callback()
def tenants() -> None:
    """Tenants that need an operator."""


@app.command()
def parked(url: str = URL, timeout: float = TIMEOUT) -> None:
    """List tenants that are not planned, as a rule failed or no instance is there: since when, why, events kept."""
    rows = await_dependency("database", lambda: parked_tenants(url), timeout)
    for name, since, error, count in rows:
        typer.echo(f"{name}: since {since:%Y-%m-%d %H:%M:%S}, {count} events kept, {error}")
    typer.echo(HELP if rows else "no tenant is parked")


def parked_tenants(url: str) -> list[tuple[str, datetime, str, int]]:
    """Name, time, error and number of kept events of each, the longest parked first."""
    with connected(url) as connection:
        return [(name, since, error, count) for name, since, error, count in connection.execute(PARKED)]
