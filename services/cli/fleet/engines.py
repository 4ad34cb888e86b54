"""``gitopsctl engines``: the engine instances that tenants are placed on.

What changes them is an order, which a planner decides on; but for ``apply``, by which an installation gets its first.
"""

from __future__ import annotations

import typer

from services.cli.database_connection import READING_URL, TIMEOUT, URL, connected
from services.cli.engine_namespaces import NAMESPACES, engine_namespaces
from services.cli.fleet import (
    engine_assignments,
    engine_moves,
    engine_orders,
    engine_placement,
    engine_pools,
    engine_rebalance,
    engine_remedies,
    engine_rollouts,
)
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, fleet, give_order
from services.cli.fleet.fleet_view import load_snapshot, screen
from services.cli.output import OUTPUT, Output, Row, print_rows, table_of
from services.cli.watching import look_every, print_changes, show_screens
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import DEFAULT_ENGINE_CLUSTER
from services.common.messages import (
    RINGS,
    AddEngineInstance,
    DrainEngineInstance,
    Health,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.common.startup import await_dependency
from services.planner.database.rollout_queries import load_sample
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import state_in_words
from services.planner.domain.fleet.placement.measured_load import in_applications
from services.planner.domain.fleet.pools.pools import MOST_CAPACITY
from services.planner.domain.fleet.pools.provisioning import why_unready
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample
from services.planner.domain.fleet.rows import CLASSES, SILENT, EngineInstanceRow, InstanceHealth
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import DEFAULT_ENGINE

app = typer.Typer(help="Engine instances.", no_args_is_help=True)

app.command("move")(engine_moves.move)
app.command("cancel-move")(engine_moves.cancel_move)
app.command("moves")(engine_moves.list_moves)
app.command("rebalance")(engine_rebalance.rebalance)
app.command("remedies")(engine_remedies.list_remedies)
app.command("assign")(engine_assignments.assign)
app.command("unassign")(engine_assignments.unassign)
app.command("dedicate")(engine_assignments.dedicate)
app.command("pin")(engine_assignments.pin)
app.command("unpin")(engine_assignments.unpin)
app.command("assignments")(engine_assignments.list_assignments)
app.command("placement")(engine_placement.placement)
app.command("orders")(engine_orders.list_orders)
app.add_typer(engine_rollouts.app, name="rollout")
app.add_typer(engine_pools.app, name="pool")

LOOK_EVERY_SECONDS = 2.0
DEFAULT_CAPACITY = 2500

ID = typer.Argument(..., metavar="ID", help="Of the instance, as 'engines list' shows it.")
NEW_ID = typer.Argument(..., metavar="ID", help="DNS label, which is never given out again.")
CLUSTER = typer.Option(DEFAULT_ENGINE_CLUSTER, "--cluster", help="Engine cluster that it runs in.")
NAMESPACE = typer.Option("", "--namespace", help="Where its objects are; if not given, the namespace of its id.")
ENGINE = typer.Option(DEFAULT_ENGINE, "--engine", help=f"What it runs: {', '.join(ENGINES)}.")
CLASS = typer.Option("shared", "--class", help=f"{' or '.join(CLASSES)}.")
DEDICATED_TO = typer.Option("", "--dedicated-to", help="Workspace whose tenants alone are placed on a dedicated one.")
RING = typer.Option("general", "--ring", help=f"When it gets a new version: {', '.join(RINGS)}.")
VERSION = typer.Option("", "--version", help="Of Argo CD: it is installed first. If not given, it is there already.")
PROFILE = typer.Option("", "--profile", help="Configuration that it is installed with; if not given, the usual one.")
CAPACITY = typer.Option(DEFAULT_CAPACITY, "--capacity", min=1, max=MOST_CAPACITY, help="Applications.")
LOST = typer.Option(
    False, "--lost", help="Nobody will ever reach it again: what it was still to remove is not waited for."
)
STOPPED = typer.Option(
    False, "--stopped", help="With --lost: do not ask whether what it ran is stopped for good, which nobody can see."
)
IS_IT_STOPPED = (
    "Nothing fences an engine that runs while no agent reaches it: it goes on to deploy what its tenants wanted last, "
    "beside the instances that have them now. Is it certain that the engine of {instance} is stopped, for good?"
)
READY_WITHIN = typer.Option(120.0, "--timeout", help="Seconds to wait for the database, and for the instance.")
RETIRED = typer.Option(False, "--retired", help="Also those that are retired.")
WATCH = typer.Option(
    False,
    "--watch",
    "-w",
    help="Go on until interrupted: a table with what is under way, or for a program what changes.",
)

UPSERT = f"""
INSERT INTO engine_instances AS known (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                                       dedicated_to, ring, capacity, ordered_at)
SELECT id, namespace, 'accepting', now(), '{DEFAULT_ENGINE}', '{DEFAULT_ENGINE_CLUSTER}', '', 'shared',
       '', 'general', {DEFAULT_CAPACITY}, now()
  FROM unnest(%s::text[], %s::text[]) AS wanted(id, namespace)
    ON CONFLICT (id) DO UPDATE SET namespace = EXCLUDED.namespace
 WHERE known.namespace <> EXCLUDED.namespace
   AND NOT EXISTS (SELECT FROM tenants WHERE engine_instance_id = known.id)
   AND NOT EXISTS (SELECT FROM deployments WHERE engine_instance_id = known.id)
"""  # noqa: S608 - of constants
MOVED = """
SELECT known.id, known.namespace
  FROM engine_instances AS known JOIN unnest(%s::text[], %s::text[]) AS wanted(id, namespace) USING (id)
 WHERE known.namespace <> wanted.namespace
"""
FIELD = {"field": "", "value": ""}
COLUMNS = {
    "id": "id",
    "cluster": "cluster",
    "namespace": "namespace",
    "region": "region",
    "class": "class",
    "dedicatedTo": "dedicated to",
    "ring": "ring",
    "state": "state",
    "health": "health",
    "reason": "reason",
    "cordoned": "cordoned",
    "closed": "closed",
    "version": "version",
    "tenants": "tenants",
    "load": "load",
    "capacity": "capacity",
}


@app.command("list")
def list_(
    output: Output = OUTPUT,
    url: str = READING_URL,
    timeout: float = TIMEOUT,
    *,
    retired: bool = RETIRED,
    watch: bool = WATCH,
) -> None:
    """List the instances, with how many tenants are on each, and what it carries: in Applications' worth of work."""
    if watch:
        _watch(url, timeout, output, retired=retired)
    rows = [row for row in _listed(url, timeout) if retired or not _is_retired(row)]
    print_rows(rows, COLUMNS, output, nothing="there is no engine instance")


@app.command()
def apply(url: str = URL, namespaces: str = NAMESPACES, timeout: float = TIMEOUT) -> None:
    """Add shared instances of cluster default that are not known yet: at set-up, before any planner runs.

    Never removes one: its tenants would be lost with it.
    """
    instances = engine_namespaces(namespaces)
    await_dependency("database", lambda: _write(url, instances), timeout)
    for instance, namespace in instances.items():
        typer.echo(f"{instance}: namespace {namespace}")


@app.command()
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


def _all_of(instance: str, url: str, timeout: float) -> Row:
    """All that ``show`` has of an instance. Raises InvalidConfiguration if there is none of that id."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    known = _known(instance, shown)
    parts = await_dependency("database", lambda: engine_placement.parts_on(url, instance), timeout)
    overload = await_dependency("database", lambda: engine_pools.overload_of(url, known.id, shown), timeout)
    sample = await_dependency("database", lambda: _last_sample(url, shown.health.get(known.id)), timeout)
    return {**instance_row(known, shown), **sample_row(sample), "overload": overload, "parts": parts}


def _last_sample(url: str, told: InstanceHealth | None) -> EngineSample | None:
    """What an agent counted for its last report; None if it counts nothing, or is silent. Raises Retry."""
    if told is None or told.reason == SILENT:
        return None
    with connected(url) as connection:
        return load_sample(connection, told.engine_instance_id, told.reported_at)


def _known(instance: str, shown: Fleet) -> EngineInstanceRow:
    """Raises InvalidConfiguration if there is none of that id."""
    known = shown.instances.get(instance)
    if known is None:
        raise InvalidConfiguration(f"there is no engine instance '{instance}'; 'gitopsctl engines list' shows them")
    return known


def _fields(row: Row) -> list[Row]:
    """A row for each value, so that a table has them one below the other, as people read them."""
    return [{"field": name, "value": value} for name, value in row.items()]


@app.command()
def add(  # noqa: PLR0913, PLR0917 - an option for each thing that an instance is added with
    instance: str = NEW_ID,
    cluster: str = CLUSTER,
    namespace: str = NAMESPACE,
    engine: str = ENGINE,
    class_: str = CLASS,
    dedicated_to: str = DEDICATED_TO,
    ring: str = RING,
    capacity: int = CAPACITY,
    version: str = VERSION,
    profile: str = PROFILE,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that there is an instance; if there is just this one, nothing changes. Needs a planner at work, KAFKA_….

    With --version a provisioner installs Argo CD in the namespace. Tenants are placed on it when its agent tells that
    it works.
    """
    order = AddEngineInstance(
        instance, cluster, namespace or instance, engine, class_, dedicated_to, ring, capacity, version, profile
    )
    give_order(order, url, timeout, output, dry_run=dry_run)


@app.command()
def wait(instance: str = ID, url: str = READING_URL, timeout: float = READY_WITHIN) -> None:
    """Wait until an instance that was added is ready for tenants. If it is not in time, what it lacks is told."""
    await_dependency(
        f"engine instance {instance}",
        lambda: _require_ready(instance, fleet(url)),
        timeout,
        complaint="is not ready after",
    )


def _require_ready(instance: str, shown: Fleet) -> None:
    """Raises Retry while it is not, InvalidConfiguration if it never will be."""
    known = _known(instance, shown)
    if known.is_retired:
        raise InvalidConfiguration(f"engine instance {instance} is retired")
    if known.is_leaving:
        raise InvalidConfiguration(state_in_words(known))
    if known.is_unready:
        raise Retry(f"it is {known.state}: {known.state_message or why_unready(known, shown)}")


@app.command()
def drain(
    instance: str = ID,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that no new tenant is placed on an instance. Those that are there stay, until a rebalance moves them."""
    give_order(DrainEngineInstance(instance), url, timeout, output, dry_run=dry_run)


@app.command()
def undrain(
    instance: str = ID,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that new tenants are placed on an instance again."""
    give_order(UndrainEngineInstance(instance), url, timeout, output, dry_run=dry_run)


@app.command()
def retire(
    instance: str = ID,
    url: str = READING_URL,
    timeout: float = WAIT,
    output: Output = OUTPUT,
    *,
    lost: bool = LOST,
    stopped: bool = STOPPED,
    dry_run: bool = DRY_RUN,
) -> None:
    """Order that an instance is given up, for good: its id is not given out again. Refused while anything is on it.

    With --lost also if it was to remove something still, and never will: its tenants have to be evacuated by then.
    """
    if lost and not (stopped or dry_run):
        typer.confirm(IS_IT_STOPPED.format(instance=instance), abort=True, err=True)
    give_order(RetireEngineInstance(instance, is_lost=lost), url, timeout, output, dry_run=dry_run)


def instance_row(known: EngineInstanceRow, shown: Fleet) -> Row:
    """An instance as ``list`` and ``show`` have it: its row, and what agents and provisioners have told of it."""
    told, installed = shown.health.get(known.id), shown.installations.get(known.id)
    return {
        "id": known.id,
        "cluster": known.engine_cluster,
        "namespace": known.namespace,
        "region": known.region,
        "engine": known.engine,
        "class": known.engine_class,
        "dedicatedTo": known.dedicated_to,
        "ring": known.ring,
        "state": known.state,
        "stateMessage": known.state_message or "",
        "health": told.health if told else Health.UNKNOWN.value,
        "reason": told.reason if told else "",
        "cordoned": known.id in shown.cordoned,
        "closed": known.id in shown.closed,
        "version": told.version if told else "",
        "tenants": shown.holding(known.id).tenants,
        "load": in_applications(shown.load.get(known.id, 0)),
        "queue": told.queue if told else 0,
        "capacity": known.capacity,
        "wantedVersion": known.wanted_version or "",
        "profile": known.profile or "",
        "installation": installed.phase if installed else "",
        "installationMessage": installed.message if installed else "",
        "createdAt": known.created_at,
        "orderedAt": known.ordered_at,
        "healthMessage": told.message if told else "",
        "healthSince": told.since if told else None,
        "healthReportedAt": told.reported_at if told else None,
        "heartbeatAt": told.heartbeat_at if told else None,
        "certificateExpiresAt": told.certificate_expires_at if told else None,
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


def _listed(url: str, timeout: float) -> list[Row]:
    """A row for each instance, by their ids; also for those that are retired: who watches one sees how it ends."""
    shown = await_dependency("database", lambda: fleet(url), timeout)
    return [instance_row(each, shown) for each in sorted(shown.instances.values(), key=lambda each: each.id)]


def _is_retired(row: Row) -> bool:
    return str(row["state"]) == "retired"


def _watch(url: str, timeout: float, output: Output, *, retired: bool) -> None:
    if output is not Output.TABLE:
        looks = look_every(LOOK_EVERY_SECONDS, lambda: _listed(url, timeout))
        print_changes(looks, output, lambda row: retired or not _is_retired(row))
    snapshots = look_every(
        LOOK_EVERY_SECONDS, lambda: await_dependency("database", lambda: load_snapshot(url), timeout)
    )
    show_screens(screen(snapshot, retired=retired) for snapshot in snapshots)


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
