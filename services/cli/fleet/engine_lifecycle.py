"""Commands of ``gitopsctl engines`` by which instances come into use and go out of it.

``add``, ``drain``, ``undrain`` and ``retire`` give orders, which a planner decides on; ``wait`` waits until an instance
that was added is ready. Only ``apply`` writes the database itself: an installation gets its first instances by it,
before any planner runs.
"""

from __future__ import annotations

import typer

from services.cli.database_connection import READING_URL, TIMEOUT, URL, connected
from services.cli.engine_namespaces import NAMESPACES, engine_namespaces
from services.cli.fleet.engine_instances import ID, find_instance
from services.cli.fleet.fleet_orders import DRY_RUN, WAIT, fleet, give_order
from services.cli.output import OUTPUT, Output
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import DEFAULT_ENGINE_CLUSTER
from services.common.messages import (
    RINGS,
    AddEngineInstance,
    DrainEngineInstance,
    RetireEngineInstance,
    UndrainEngineInstance,
)
from services.common.startup import await_dependency
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.order_validation import state_in_words
from services.planner.domain.fleet.pools.pools import MOST_CAPACITY
from services.planner.domain.fleet.pools.readiness import why_unready
from services.planner.domain.fleet.rows import CLASSES
from services.planner.engines.available import ENGINES
from services.planner.rows.fleet import DEFAULT_ENGINE

DEFAULT_CAPACITY = 2500

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
READY_WITHIN = typer.Option(
    120.0, "--timeout", min=0, help="Seconds to wait for the database, and for the instance; 0: only look."
)

UPSERT = f"""
INSERT INTO engine_instances AS stored (id, namespace, state, created_at, engine, engine_cluster, region, engine_class,
                                       dedicated_to, ring, capacity, ordered_at)
SELECT id, namespace, 'accepting', now(), '{DEFAULT_ENGINE}', '{DEFAULT_ENGINE_CLUSTER}', '', 'shared',
       '', 'general', {DEFAULT_CAPACITY}, now()
  FROM unnest(%s::text[], %s::text[]) AS wanted(id, namespace)
    ON CONFLICT (id) DO UPDATE SET namespace = EXCLUDED.namespace
 WHERE stored.namespace <> EXCLUDED.namespace
   AND NOT EXISTS (SELECT FROM tenants WHERE engine_instance_id = stored.id)
   AND NOT EXISTS (SELECT FROM deployments WHERE engine_instance_id = stored.id)
"""  # noqa: S608 - of constants
MOVED = """
SELECT stored.id, stored.namespace
  FROM engine_instances AS stored JOIN unnest(%s::text[], %s::text[]) AS wanted(id, namespace) USING (id)
 WHERE stored.namespace <> wanted.namespace
"""


def apply(url: str = URL, namespaces: str = NAMESPACES, timeout: float = TIMEOUT) -> None:
    """Add shared instances of cluster default that are not known yet: at set-up, before any planner runs.

    Never removes one: its tenants would be lost with it.
    """
    instances = engine_namespaces(namespaces)
    await_dependency("database", lambda: _write(url, instances), timeout)
    for instance, namespace in instances.items():
        typer.echo(f"{instance}: namespace {namespace}")


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


def wait(instance: str = ID, url: str = READING_URL, timeout: float = READY_WITHIN) -> None:
    """Wait until an instance that was added is ready for tenants. If it is not in time, what it lacks is told."""
    await_dependency(
        f"engine instance {instance}",
        lambda: _require_ready(instance, fleet(url)),
        timeout,
        complaint="is not ready after",
    )


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


def _require_ready(instance: str, shown: Fleet) -> None:
    """Raises Retry while the instance is not ready, InvalidConfiguration if it never will be."""
    row = find_instance(instance, shown)
    if row.is_retired:
        raise InvalidConfiguration(f"engine instance {instance} is retired")
    if row.is_leaving:
        raise InvalidConfiguration(state_in_words(row))
    if row.is_unready:
        raise Retry(f"it is {row.state}: {row.state_message or why_unready(row, shown)}")


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
