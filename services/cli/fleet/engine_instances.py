"""``gitopsctl engines list`` and ``show``: the engine instances, and what their agents and provisioners have reported.

Both read the database alone. With ``--watch`` they go on until interrupted; people then see
the screen of :mod:`fleet_view` for the whole fleet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer
from rich.console import RenderableType

from services.cli.database_connection import READING_URL, TIMEOUT, connected
from services.cli.fleet import engine_placement, engine_pools
from services.cli.fleet.fleet_orders import fleet
from services.cli.fleet.fleet_view import load_snapshot, screen
from services.cli.fleet.instance_table import NO_INSTANCE, InstanceTable, columns_for
from services.cli.output import OUTPUT, Output, Row, print_rendered, print_rows, table_of
from services.cli.watching import look_every, print_changes, show_screens
from services.common.errors import InvalidConfiguration
from services.common.messages import Health
from services.common.startup import await_dependency
from services.planner.database.rollout_queries import load_sample
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.measured_load import in_applications
from services.planner.domain.fleet.reports.report_rows import SILENT, InstanceHealth
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample
from services.planner.domain.fleet.rows import EngineInstanceRow

LOOK_EVERY_SECONDS = 2.0

ID = typer.Argument(..., metavar="ID", help="Of the instance, as 'engines list' shows it.")
RETIRED = typer.Option(False, "--retired", help="Also those that are retired.")
WATCH = typer.Option(
    False,
    "--watch",
    "-w",
    help="Go on until interrupted: a table with what is under way, or for a program what changes.",
)
FIELD = {"field": "field", "value": "value"}
_CAPITAL = re.compile(r"[A-Z]")


def list_instances(
    output: Output = OUTPUT,
    url: str = READING_URL,
    timeout: float = TIMEOUT,
    *,
    retired: bool = RETIRED,
    watch: bool = WATCH,
) -> None:
    """List the instances, with how many tenants are on each, and what it carries: in Applications' worth of work.

    The table has the columns that tell something, as far as there is room; -o json and -o yaml have everything.
    """
    if watch:
        _watch(url, timeout, output, retired=retired)
    shown = await_dependency("database", lambda: fleet(url), timeout)
    listed = [each for each in _by_id(shown) if retired or not each.is_retired]
    print_rendered([instance_row(each, shown) for each in listed], lambda: _table(shown, listed), output)


def show(
    instance: str = ID,
    output: Output = OUTPUT,
    url: str = READING_URL,
    timeout: float = TIMEOUT,
    *,
    watch: bool = WATCH,
) -> None:
    """Show all of one instance, also what its agent counted last, and what keeps it from being relieved.

    And the parts of split tenants that are on it. What was counted is empty while no agent tells it.
    """
    looks = look_every(LOOK_EVERY_SECONDS, lambda: _all_of(instance, url, timeout))
    if not watch:
        row = next(looks)
        print_rows([row] if output is not Output.TABLE else _fields(row), FIELD, output, nothing="")
    elif output is not Output.TABLE:
        print_changes(([row] for row in looks), output)
    else:
        show_screens(table_of(_fields(row), FIELD) for row in looks)


def instance_row(row: EngineInstanceRow, shown: Fleet) -> Row:
    """An instance as ``list`` and ``show`` print it: its row, and the newest reports of its agent and provisioner."""
    health, installed = shown.health.get(row.id), shown.installations.get(row.id)
    return {
        "id": row.id,
        "cluster": row.engine_cluster,
        "namespace": row.namespace,
        "region": row.region,
        "engine": row.engine,
        "class": row.engine_class,
        "dedicatedTo": row.dedicated_to,
        "ring": row.ring,
        "state": row.state,
        "stateMessage": row.state_message or "",
        "health": health.health if health else Health.UNKNOWN.value,
        "reason": health.reason if health else "",
        "cordoned": row.id in shown.cordoned,
        "closed": row.id in shown.closed,
        "version": health.version if health else "",
        "tenants": shown.holding(row.id).tenants,
        "load": in_applications(shown.load.get(row.id, 0)),
        "queue": health.queue if health else 0,
        "capacity": row.capacity,
        "wantedVersion": row.wanted_version or "",
        "profile": row.profile or "",
        "installation": installed.phase if installed else "",
        "installationMessage": installed.message if installed else "",
        "createdAt": row.created_at,
        "orderedAt": row.ordered_at,
        "healthMessage": health.message if health else "",
        "healthSince": health.since if health else None,
        "healthReportedAt": health.reported_at if health else None,
        "heartbeatAt": health.heartbeat_at if health else None,
        "certificateExpiresAt": health.certificate_expires_at if health else None,
    }


def sample_row(sample: EngineSample | None) -> Row:
    """What an agent counted of an instance's Applications, as it is shown; without a sample each value is None."""
    return {
        "countedAt": sample.sampled_at if sample else None,
        "applications": sample.applications if sample else None,
        "late": sample.late if sample else None,
        "failedSyncs": sample.failed_syncs if sample else None,
        "comparisonErrors": sample.comparison_errors if sample else None,
        "failingTenants": sample.failing_tenants if sample else None,
    }


def find_instance(instance: str, shown: Fleet) -> EngineInstanceRow:
    """The instance of that id. Raises InvalidConfiguration if there is none."""
    row = shown.instances.get(instance)
    if row is None:
        raise InvalidConfiguration(f"there is no engine instance '{instance}'; 'gitopsctl engines list' shows them")
    return row


def _all_of(instance: str, url: str, timeout: float) -> Row:
    """All that ``show`` has of an instance. Raises InvalidConfiguration if there is none of that id."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    row = find_instance(instance, shown)
    parts = await_dependency("database", lambda: engine_placement.parts_on(url, instance), timeout)
    overload = await_dependency("database", lambda: engine_pools.overload_of(url, row.id, shown), timeout)
    sample = await_dependency("database", lambda: _last_sample(url, shown.health.get(row.id)), timeout)
    return {**instance_row(row, shown), **sample_row(sample), "overload": overload, "parts": parts}


def _last_sample(url: str, health: InstanceHealth | None) -> EngineSample | None:
    """What an agent counted for its last report; None if it counts nothing, or is silent. Raises Retry."""
    if health is None or health.reason == SILENT:
        return None
    with connected(url) as connection:
        return load_sample(connection, health.engine_instance_id, health.reported_at)


def _fields(row: Row) -> list[Row]:
    """A row for each value, so that a table has them one below the other, as people read them: named in words."""
    return [{"field": _in_words(name), "value": value} for name, value in row.items()]


def _in_words(name: str) -> str:
    """A name as JSON has it, such as ``dedicatedTo``."""
    return _CAPITAL.sub(lambda capital: f" {capital[0].lower()}", name)


def _table(shown: Fleet, listed: Sequence[EngineInstanceRow]) -> RenderableType:
    return InstanceTable(shown, listed, columns_for(shown, listed)) if listed else NO_INSTANCE


def _by_id(shown: Fleet) -> list[EngineInstanceRow]:
    return sorted(shown.instances.values(), key=lambda each: each.id)


def _watched(url: str, timeout: float) -> list[Row]:
    """A row for each instance, also for retired ones: somebody who watches one sees how it ends."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    return [instance_row(each, shown) for each in _by_id(shown)]


def _is_retired(row: Row) -> bool:
    return str(row["state"]) == "retired"


def _watch(url: str, timeout: float, output: Output, *, retired: bool) -> None:
    if output is not Output.TABLE:
        looks = look_every(LOOK_EVERY_SECONDS, lambda: _watched(url, timeout))
        print_changes(looks, output, lambda row: retired or not _is_retired(row))
    snapshots = look_every(
        LOOK_EVERY_SECONDS, lambda: await_dependency("database", lambda: load_snapshot(url), timeout)
    )
    show_screens(screen(snapshot, retired=retired) for snapshot in snapshots)
