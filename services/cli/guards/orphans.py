"""``gitopsctl orphans``: what forced deletions may have left behind, and what agents keep though no row desires it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import typer

from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.guards import kept_orphans
from services.common.startup import await_dependency
from services.kinds.gitops_deployment.left_behind import listed, parsed_resources
from services.planner.domain.audit import FORCED

app = typer.Typer(help="What is there and nobody asks for.", no_args_is_help=True)
for command in (kept_orphans.kept, kept_orphans.show, kept_orphans.approve):
    app.command()(command)

LEFT_BEHIND = """
SELECT gone.workspace || '/' || gone.namespace, gone.kind || '/' || gone.name, gone.updated_at, gone.message,
       EXISTS (SELECT FROM audit_records AS later
                WHERE later.action = 'create' AND later.created_at >= gone.created_at
                  AND (later.workspace, later.namespace, later.kind, later.name)
                    = (gone.workspace, gone.namespace, gone.kind, gone.name)),
       forced.resources, forced.total
  FROM audit_records AS gone
  LEFT JOIN forced_deletions AS forced ON forced.id = gone.deployment_id
 WHERE gone.action = 'delete' AND starts_with(gone.message, %s)
 ORDER BY gone.updated_at, gone.id
"""
HELP = (
    "What an Application made carries its name in the annotation argocd.argoproj.io/tracking-id (or the label\n"
    "app.kubernetes.io/instance); what managed-env-ID made is the service account argocd-manager-UID in kube-system,\n"
    "with its roles, on the environment's cluster. Look there, and delete what nobody needs.\n"
    "The list goes back as far as the audit (AUDIT_KEPT)."
)


@app.command("list")
def list_orphans(url: str = URL, timeout: float = TIMEOUT) -> None:
    """List deletions that were forced, because an engine did not finish them in time: whose, what, and when."""
    rows = await_dependency("database", lambda: left_behind(url), timeout)
    for row in rows:
        typer.echo("; ".join(_parts(row)))
    typer.echo(HELP if rows else "no deletion was forced")


class Forced(NamedTuple):
    """A deletion that was forced."""

    tenant: str
    resource: str
    at: datetime
    message: str
    is_there_again: bool
    """A resource of the same kind and name has been created since."""
    resources: str | None = None
    """What nothing has taken over of a GitOpsDeployment; None: the database does not have it, or no longer."""
    total: int | None = None


def left_behind(url: str) -> list[Forced]:
    """All that the audit knows, the oldest first."""
    with connected(url) as connection:
        return [Forced(*row) for row in connection.execute(LEFT_BEHIND, (FORCED,))]


def _parts(row: Forced) -> Iterator[str]:
    yield f"{row.tenant}: {row.resource}, deleted {row.at:%Y-%m-%d %H:%M:%S}, {row.message}"
    if row.is_there_again:
        yield "created again since, which takes over what has the same names"
        if row.resources is not None:
            yield f"not taken over are {listed(parsed_resources(row.resources), row.total)}"
