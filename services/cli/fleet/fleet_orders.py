"""Gives operators' orders about the fleet to a planner, and tells what it has decided. Called by the commands of it."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import typer
from psycopg import IsolationLevel

from services.cli.database_connection import SHORTEST_WAIT, connected
from services.cli.output import Output, Row, print_rows, print_values
from services.cli.sending import ACKNOWLEDGED_WITHIN, Unacknowledged, publishing
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, NoPermission, Retry, Unavailable
from services.common.kafka import FLEET_ORDERS, Publisher
from services.common.messages import FleetOrder, Order
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency, one_line
from services.common.telemetry import TRACEPARENT, new_traceparent
from services.kinds.shared.text import readable
from services.planner.database.fleet_queries import load_all_tenants, load_counted_fleet, load_measured
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.orders import (
    ORDERS_OF_A_TENANT,
    Decision,
    decide_order,
    is_of_all_tenants,
)
from services.planner.engines.available import ENGINES

REFUSED = 1
"""Exit code."""

DRY_RUN = typer.Option(False, "--dry-run", help="Only tell what would be decided, by what the database shows.")
WAIT = typer.Option(
    60.0,
    "--timeout",
    min=SHORTEST_WAIT,
    help="Seconds to wait each time: for the database, the schema registry, the brokers, and a planner to decide.",
)
TIME = "SELECT now()"
OUTCOME = "SELECT outcome, message FROM fleet_orders WHERE id = %s"


class Undecided(Unavailable):
    """No decision on an order is known in time: a planner that reads it decides on it later."""


class PlanTable(NamedTuple):
    """A part of what an order would make of the fleet."""

    rows: Callable[[Fleet], list[Row]]
    """Of the fleet as it would be."""
    columns: Mapping[str, str]
    """Heading by name of the value."""


def give_order(
    order: Order,
    url: str,
    timeout: float,
    output: Output,
    plan: Mapping[str, PlanTable] = MappingProxyType({}),
    *,
    dry_run: bool,
) -> None:
    """Have a planner decide on ``order``, and print what it has decided; a refusal goes to stderr.

    With ``dry_run`` nothing is sent, and ``plan`` is shown of what would become of the fleet. Programs are shown one
    document of each order that is sent: ``outcome`` and ``message``.

    Raises:
        Exit: with code 1, as it is refused.
        Undecided: it is not decided in time, and may be later. Programs are shown its ``id``.
        Unavailable: it was not sent.
    """
    if dry_run:
        _show_plan(order, plan, url, timeout, output)
        return
    given = _given(order, url, timeout)
    try:
        outcome, message = _decision(given, url, timeout)
    except Undecided as error:
        if output is not Output.TABLE:
            print_values({"outcome": "undecided", "message": one_line(error), "id": given.id}, output)
        raise
    _tell(order, outcome, message, {"outcome": outcome, "message": message}, output)


def try_order(order: Order, url: str, timeout: float) -> Decision:
    """What would be decided, by what the database shows; nothing is sent."""
    given = _given(order, url, timeout)
    return decide_order(given, await_dependency("database", lambda: fleet(url, order), timeout))


def stop_if_refused(order: Order, url: str, timeout: float, output: Output, *, dry_run: bool = False) -> None:
    """Before something is made for ``order``: tell why it is refused, by what the database shows.

    Nothing is sent. Raises Exit with code 1 if it would be; else nothing is printed.
    """
    tried = try_order(order, url, timeout)
    if tried.outcome == "refused":
        outcome = "would be refused" if dry_run else "refused"
        _tell(order, outcome, tried.message, {"outcome": "refused", "message": tried.message}, output)


def _show_plan(order: Order, plan: Mapping[str, PlanTable], url: str, timeout: float, output: Output) -> None:
    """Print what would become of the fleet, and what would be decided; nothing is sent.

    People are shown tables, if it would be accepted. Programs are shown one document whatever is decided: ``outcome``,
    ``message``, and the rows by the names in ``plan``. A refusal goes to stderr, too. Raises Exit with code 1 for one.
    """
    tried = try_order(order, url, timeout)
    planned = {name: table.rows(tried.fleet) if tried.outcome == "accepted" else [] for name, table in plan.items()}
    if output is Output.TABLE and tried.outcome == "accepted":
        for name, table in plan.items():
            print_rows(planned[name], table.columns, output, nothing="")
            typer.echo()
    document = {"outcome": tried.outcome, "message": tried.message, **planned}
    _tell(order, f"would be {tried.outcome}", tried.message, document, output)


def _given(order: Order, url: str, timeout: float) -> FleetOrder:
    """``order`` as it is sent: with an id, who gives it, and the database's time.

    What it changes has times of planners, and an operator's clock may be any.
    """
    now = await_dependency("database", lambda: database_time(url), timeout)
    return FleetOrder(uuid4(), operator(), now, order)


def _tell(order: Order, outcome: str, message: str, document: Mapping[str, Any], output: Output) -> None:
    """Show a decision: people get a line, on stderr if it refuses; programs get ``document``, and a refusal in both.

    A refusal may hold words of agents: no line lets their control characters through to the terminal.
    """
    text = readable(f"{order.id}: {outcome}{message and f', {message}'}")
    if output is not Output.TABLE:
        print_values(document, output)
    elif not outcome.endswith("refused"):
        typer.echo(text)
    if outcome.endswith("refused"):
        typer.echo(text, err=True)
        raise typer.Exit(REFUSED)


def _decision(given: FleetOrder, url: str, timeout: float) -> tuple[str, str]:
    """The outcome and message that a planner has decided on. Raises Undecided; Unavailable if it was not sent."""
    shown = f"'gitopsctl engines orders -o json' shows it, with id {given.id}"
    try:
        send_order(load(KafkaSettings), given, timeout)
    except Unacknowledged as error:
        raise Undecided(f"the order may have been sent: {error}; if it was, {shown} once it is decided on") from error
    try:
        return await_dependency("planner", lambda: _outcome(url, given.id), timeout)
    except Unavailable as error:
        raise Undecided(f"{error}; {shown} then") from error
    except (NoPermission, InvalidConfiguration) as error:
        raise Undecided(f"the order is sent, but its decision cannot be read: {error}; {shown} then") from error


def send_order(settings: KafkaSettings, order: FleetOrder, timeout: float = ACKNOWLEDGED_WITHIN) -> None:
    """Send ``order``; return when it is acknowledged. Raises as :func:`publishing`."""
    registry = SchemaRegistry(settings)

    def encode() -> bytes:
        return AvroCodec(registry, FleetOrder, value_subject(FLEET_ORDERS)).encode_message(order)

    try:
        message = await_dependency("schema registry", encode, timeout)
    except Unavailable as error:
        raise Unavailable(f"{error}; nothing was sent") from error

    def send(publisher: Publisher) -> None:
        publisher.send_message(FLEET_ORDERS, None, message, {TRACEPARENT: new_traceparent()}).result()

    publishing(settings, send, timeout, advice="")  # it may have arrived, and would be another order


def fleet(url: str, order: Order | None = None) -> Fleet:
    """The fleet as the database shows it, with tenants that ``order`` is about; without one with what instances carry.

    In one snapshot: tenants are where their moves have them. Raises Retry.
    """
    tenants = [order.tenant] if isinstance(order, ORDERS_OF_A_TENANT) else []
    with connected(url) as connection:
        connection.isolation_level, connection.read_only = IsolationLevel.REPEATABLE_READ, True
        shown = load_counted_fleet(connection, ENGINES, tenants)
        if order is not None and is_of_all_tenants(order):
            return replace(shown, tenants=load_all_tenants(connection, ENGINES))
        return shown if order is not None else replace(shown, load=load_measured(connection, ENGINES))


def database_time(url: str) -> datetime:
    """What time it is for the database. Raises Retry."""
    with connected(url) as connection:
        ((now,),) = connection.execute(TIME)
    at: datetime = now.astimezone(UTC)
    return at


def operator() -> str:
    """Who runs the command, for the audit: the account, and the machine."""
    try:
        account = getpass.getuser()
    except (KeyError, OSError):  # of a container, say, that has no name for its user
        account = str(os.getuid())
    return f"{account}@{socket.gethostname()}"


def _outcome(url: str, order: UUID) -> tuple[str, str]:
    """Outcome and message of an order, by its id. Raises Retry as long as no planner has decided on it."""
    with connected(url) as connection:
        row = connection.execute(OUTCOME, (order,)).fetchone()
    if row is None:
        raise Retry("the order is sent, and is decided on as soon as a planner takes it up")
    outcome, message = row
    return outcome, message
