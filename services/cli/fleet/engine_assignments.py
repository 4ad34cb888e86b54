"""``gitopsctl engines assign``, ``dedicate`` and ``pin``, what undoes them, and lists of what is ordered so."""

from __future__ import annotations

import typer

from services.cli.database_connection import READING_URL, TIMEOUT
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, fleet, give_order
from services.cli.output import OUTPUT, Output, Row, print_rows
from services.common.errors import InvalidConfiguration
from services.common.messages import RINGS, AssignWorkspace, DedicateEngineInstance, PinTenant, UnpinTenant
from services.common.startup import await_dependency
from services.planner.domain.fleet.fleet import Fleet

OF_WORKSPACE = typer.Argument(..., metavar="WORKSPACE", help="Name of the workspace.")
REGION = typer.Option("", "--region", help="Of an engine cluster, as 'engine-clusters list' shows it.")
RING = typer.Option("", "--ring", help=f"Of engine instances: {', '.join(RINGS)}.")
INSTANCE = typer.Argument(..., metavar="INSTANCE", help="As 'engines list' shows it.")
DEDICATED_TO = typer.Option("", "--to", metavar="WORKSPACE", help="Workspace that has it to itself.")
SHARED = typer.Option(False, "--shared", help="It is no workspace's own any more.")
TENANT = typer.Argument(..., metavar="NAMESPACE", help="Namespace of the tenant.")
WORKSPACE = typer.Option("local", "--workspace", help="Its workspace.")
PINNED_TO = typer.Option("", "--to", metavar="INSTANCE", help="Of a tenant that is still to come; else where it is.")

COLUMNS = {
    "workspace": "workspace",
    "namespace": "namespace",
    "region": "region",
    "ring": "ring",
    "instances": "instances",
    "kind": "kind",
    "since": "since",
}


def assign(
    workspace: str = OF_WORKSPACE,
    region: str = REGION,
    ring: str = RING,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that tenants of a workspace are placed in a region, a ring or both alone: what is not given may be any.

    In place of what was ordered of the workspace before. No tenant moves by it, but with the next rebalance.
    """
    if not region and not ring:
        raise InvalidConfiguration("give --region, --ring or both; 'gitopsctl engines unassign' takes both back")
    give_order(AssignWorkspace(workspace, region, ring), url, timeout, output, dry_run=dry_run)


def unassign(
    workspace: str = OF_WORKSPACE,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that tenants of a workspace may be placed in any region and ring; those that are placed stay."""
    give_order(AssignWorkspace(workspace, "", ""), url, timeout, output, dry_run=dry_run)


def dedicate(
    instance: str = INSTANCE,
    workspace: str = DEDICATED_TO,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    shared: bool = SHARED,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that an instance is for tenants of one workspace, or of any. Refused while others' tenants are on it."""
    if bool(workspace) == shared:
        raise InvalidConfiguration("give either --to WORKSPACE or --shared")
    give_order(DedicateEngineInstance(instance, workspace), url, timeout, output, dry_run=dry_run)


def pin(
    namespace: str = TENANT,
    workspace: str = WORKSPACE,
    target: str = PINNED_TO,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a tenant stays on its instance: no order moves it. One that there is not yet is placed on --to."""
    give_order(PinTenant(workspace, namespace, target), url, timeout, output, dry_run=dry_run)


def unpin(
    namespace: str = TENANT,
    workspace: str = WORKSPACE,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that a tenant may be moved again."""
    give_order(UnpinTenant(workspace, namespace), url, timeout, output, dry_run=dry_run)


def list_assignments(output: Output = OUTPUT, url: str = READING_URL, timeout: float = TIMEOUT) -> None:
    """List assignments of workspaces, dedicated instances and pinned tenants."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    print_rows(assignment_rows(shown), COLUMNS, output, nothing="nothing is assigned, dedicated or pinned")


def assignment_rows(shown: Fleet) -> list[Row]:
    """A row for each assignment, dedicated instance and pin, by workspace and in this order."""
    found = [
        _row("assign", each.workspace, each.assigned_at, _admitted(each.workspace, shown), each.region, each.ring)
        for each in shown.rules.assignments.values()
    ]
    found += [
        _row("dedicate", each.dedicated_to, each.ordered_at, [each.id], each.region, each.ring)
        for each in shown.instances.values()
        if each.dedicated_to and not each.is_retired
    ]
    found += [
        _row("pin", pin.workspace, pin.pinned_at, [pin.engine_instance_id], namespace=pin.namespace)
        for pin in shown.rules.pins.values()
    ]
    order = ("assign", "dedicate", "pin")
    return sorted(
        found, key=lambda row: (row["workspace"], order.index(row["kind"]), row["namespace"], row["instances"])
    )


def _admitted(workspace: str, shown: Fleet) -> list[str]:
    """Ids of the instances that may have tenants of a workspace; none that is retired."""
    instances = [each for each in shown.instances.values() if not each.is_retired]
    affinity = shown.rules.affinity(workspace).among(instances)
    return sorted(each.id for each in instances if affinity.admits(each))


def _row(  # noqa: PLR0917 - the columns
    kind: str,
    workspace: str,
    since: object,
    instances: list[str],
    region: str = "",
    ring: str = "",
    namespace: str = "",
) -> Row:
    return {
        "kind": kind,
        "workspace": workspace,
        "namespace": namespace,
        "region": region,
        "ring": ring,
        "instances": instances,
        "since": since,
    }
