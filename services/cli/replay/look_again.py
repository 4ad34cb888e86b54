"""``gitopsctl look-again``: has planners compile anew what follows from resources that have not changed.

For after a planner was mended. A command goes to each tenant's partition, in order with its changes, and the planner
that owns it writes what differs by its rules, and nothing else. Tenants are asked for at a pace, so that changes of
others go on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.progress import Progress

from services.cli.database_connection import TIMEOUT, URL, connected
from services.cli.filters import TENANT, parse_kind, parse_tenant
from services.cli.output import tell
from services.cli.sending import send_commands
from services.common.errors import InvalidConfiguration
from services.common.messages import Command, LookAgain
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency
from services.planner.rows.tenants import TenantName

app = typer.Typer(help="Have what follows from unchanged resources compiled anew.")

KIND = typer.Option(None, "--kind", metavar="KIND", help="Only of resources of this kind; without --tenant, of all.")
RATE = typer.Option(100, "--rate", min=1, max=10_000, help="Tenants that are asked for in a second.")
DRY_RUN = typer.Option(False, "--dry-run", help="Only tell of how many tenants.")

TENANTS = """
SELECT DISTINCT t.workspace, t.namespace
  FROM tenants t
  JOIN (SELECT tenant_id, 'GitOpsDeployment' AS kind FROM deployments WHERE present
         UNION ALL
        SELECT tenant_id, kind FROM resources WHERE present) AS found ON found.tenant_id = t.id
 WHERE t.former_since = 0 AND %(kind)s IN ('', found.kind)
   AND %(tenant)s IN ('', t.workspace || '/' || t.namespace)
 ORDER BY t.workspace, t.namespace
"""


@app.callback(invoke_without_command=True)
def look_again(
    tenant: str | None = TENANT,
    kind: str | None = KIND,
    rate: int = RATE,
    url: str = URL,
    timeout: float = TIMEOUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Have planners look again at a tenant's resources, or at all of a kind, though they have not changed.

    What they compile by their rules is written where it differs. What a resource's spec says is what was taken over
    when it came: a spec that was refused then is read again when its watcher lists it.
    """
    if tenant is None and kind is None:
        raise InvalidConfiguration("say whose by --tenant, or of which kind by --kind")
    name = parse_tenant(tenant) if tenant is not None else None
    wanted = parse_kind(kind) if kind is not None else ""
    found = await_dependency("database", lambda: tenants_with(url, name, wanted), timeout)
    if not dry_run:
        settings = load(KafkaSettings)
        ask_paced(found, rate, lambda names: send_commands(settings, [request(each, wanted) for each in names]))
    tell(f"look-again: {len(found)} tenants {'would be' if dry_run else 'are'} looked at again")


def tenants_with(url: str, tenant: TenantName | None, kind: str) -> list[TenantName]:
    """Tenants that have resources of ``kind``, or any if that is empty. Raises Retry."""
    values = {"kind": kind, "tenant": "/".join(tenant) if tenant is not None else ""}
    with connected(url) as connection:
        return [(workspace, namespace) for workspace, namespace in connection.execute(TENANTS, values)]


def request(tenant: TenantName, kind: str) -> Command:
    """The command that asks for a tenant to be compiled anew."""
    return Command(tenant[0], *tenant, datetime.now(UTC), LookAgain(kind))


def ask_paced(
    tenants: Sequence[TenantName],
    rate: int,
    send: Callable[[Sequence[TenantName]], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call ``send`` for each tenant, at most ``rate`` times a second."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("tenants", total=len(tenants))
        for first in range(0, len(tenants), rate):
            if first:
                sleep(1)
            send(tenants[first : first + rate])
            bar.update(task, advance=len(tenants[first : first + rate]))
