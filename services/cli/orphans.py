"""``gitopsctl orphans``: what forced deletions may have left behind."""

from __future__ import annotations

from datetime import datetime

import typer

from services.cli.owner_connection import TIMEOUT, URL, connected
from services.common.startup import await_dependency
from services.planner.domain.audit import FORCED

app = typer.Typer(help="What forced deletions may have left behind.", no_args_is_help=True)

LEFT_BEHIND = """
SELECT workspace || '/' || namespace, kind || '/' || name, updated_at, message
  FROM audit_records
 WHERE action = 'delete' AND starts_with(message, %s)
 ORDER BY updated_at, id
"""
HELP = (
    "What an Application made carries its name in the annotation argocd.argoproj.io/tracking-id (or the label\n"
    "app.kubernetes.io/instance); what managed-env-ID made is the service account argocd-manager-UID in kube-system,\n"
    "with its roles, on the environment's cluster. Look there, and delete what nobody needs.\n"
    "The list goes back as far as the audit (AUDIT_KEPT)."
)


# A group even while it has a single command: `gitopsctl orphans list`.
@app.callback()
def orphans() -> None:
    """What forced deletions may have left behind."""


@app.command("list")
def list_orphans(url: str = URL, timeout: float = TIMEOUT) -> None:
    """List deletions that were forced, because an engine did not finish them in time: whose, what, and when."""
    rows = await_dependency("database", lambda: left_behind(url), timeout)
    for tenant, resource, at, message in rows:
        typer.echo(f"{tenant}: {resource}, deleted {at:%Y-%m-%d %H:%M:%S}, {message}")
    typer.echo(HELP if rows else "no deletion was forced")


def left_behind(url: str) -> list[tuple[str, str, datetime, str]]:
    """Tenant, resource, time and message of each, the oldest first."""
    with connected(url) as connection:
        rows = connection.execute(LEFT_BEHIND, (FORCED,))
        return [(tenant, resource, at, message) for tenant, resource, at, message in rows]
