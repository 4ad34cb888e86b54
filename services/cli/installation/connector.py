"""``gitopsctl connector``: the Debezium connector that carries compiled rows from PostgreSQL to Kafka."""

from __future__ import annotations

import json
import re
import ssl
import time
from pathlib import Path
from typing import Any

import httpx2
import typer

from services.cli.database_connection import TIMEOUT as DATABASE_TIMEOUT
from services.cli.database_connection import URL
from services.cli.installation.connect import ConnectorSettings, ConnectSettings, connect_client
from services.cli.installation.signals import quoted, send_signal
from services.common.backoff import Backoff
from services.common.clock import Clock, SystemClock
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.settings import load
from services.common.startup import await_dependency

app = typer.Typer(help="Change data capture.", no_args_is_help=True)

DEFINITION = Path(__file__).with_name("connector.json")
NAME = "gitops"
STOPPED = "STOPPED"
LOOK_EVERY_SECONDS = 0.1
SETTLE_SECONDS = 3.0
KEEP_LIMIT_SECONDS = 60.0
SILENT_SECONDS = 30.0
"""A task that runs reports its position within this time: three of its heartbeats."""

EVERY = typer.Option(2.0, help="Seconds between two looks; longer and longer while restarting does not help.")
TABLE = typer.Argument(..., metavar="TABLE", help="Such as engine_instances.")
TIMEOUT = typer.Option(60.0, help="Seconds to wait for Connect, and then for the connector to run.")


@app.command()
def apply(timeout: float = TIMEOUT) -> None:
    """Make Connect run the connector as connector.json says, and wait until it does.

    Where Connect is: CONNECT_URL, CONNECT_CA, CONNECT_CERTIFICATE, CONNECT_KEY. How often it looks for rows:
    CONNECT_POLL_INTERVAL_MS.
    """
    settings = load(ConnectorSettings)
    definition: dict[str, str] = json.loads(DEFINITION.read_text())
    definition["poll.interval.ms"] = str(settings.connect_poll_interval_ms)
    with connect_client(settings) as client:
        await_dependency(
            f"Kafka Connect at {settings.connect_url}", lambda: _put(client, definition), timeout_seconds=timeout
        )
        _await_running(client, timeout)
    typer.echo(f"connector {NAME}: running")


@app.command()
def stop(timeout: float = TIMEOUT) -> None:
    """Stop the connector, and have Connect forget how far it was: 'apply' starts it with a snapshot of all rows.

    For a database that takes the place of a lost one: positions in the log of that mean nothing here. For any other,
    follow docs/operations/lost-connect-offsets.md: a snapshot does not show what was deleted before it.
    """
    settings = load(ConnectSettings)
    with connect_client(settings) as client:
        where = f"Kafka Connect at {settings.connect_url}"
        await_dependency(where, lambda: _call(client, "PUT", f"/connectors/{NAME}/stop"), timeout)
        await_dependency(where, lambda: _forget_offsets(client), timeout)
    typer.echo(f"connector {NAME}: stopped; 'gitopsctl connector apply' starts it")


class Unreachable(Retry):
    """Nothing listens where Kafka Connect should be: it does not run, or cannot be reached from here."""


def is_stopped() -> bool:
    """Whether the connector does not run, and has no offsets any more. Raises Retry, InvalidConfiguration."""
    missing = (httpx2.codes.NOT_FOUND,)
    with connect_client(load(ConnectSettings)) as client:
        status = _json(_call(client, "GET", f"/connectors/{NAME}/status", accept=missing))
        if status.get("connector", {}).get("state", STOPPED) != STOPPED:
            return False
        return not _json(_call(client, "GET", f"/connectors/{NAME}/offsets", accept=missing)).get("offsets")


def _forget_offsets(client: httpx2.Client) -> None:
    """Delete the connector's offsets. Raises Retry while its task still ends."""
    try:
        _call(client, "DELETE", f"/connectors/{NAME}/offsets")
    except InvalidConfiguration as error:
        raise Retry(str(error)) from error


@app.command()
def resend(table: str = TABLE, url: str = URL, timeout: float = DATABASE_TIMEOUT) -> None:
    """Have the connector send all rows of a streamed table once more, beside what changes.

    For a table that is streamed since this release: what it held before is in no message.
    """
    streamed: str = json.loads(DEFINITION.read_text())["table.include.list"]
    if not any(re.fullmatch(pattern, f"public.{table}") for pattern in streamed.split(",")):
        raise InvalidConfiguration(f"'{table}' is no table that is streamed; those are {streamed.replace(chr(92), '')}")
    request = {"type": "incremental", "data-collections": [quoted(table)]}
    await_dependency("database", lambda: send_signal(url, request), timeout)
    typer.echo(f"connector {NAME}: {table} is sent once more")


@app.command()
def keep(every: float = EVERY) -> None:
    """Restart the connector's task whenever it has ended, for ever; with the settings of 'apply'.

    Debezium retries what the database and Kafka do; a converter that meets a registry in the middle of its own
    restart ends the task instead, and Connect leaves an ended task ended.
    """
    delays = Backoff(first=every, limit=KEEP_LIMIT_SECONDS)
    with connect_client(load(ConnectSettings)) as client:
        keeper = Keeper(client)
        while True:
            delays = delays if keeper.revived() else Backoff(first=every, limit=KEEP_LIMIT_SECONDS)
            time.sleep(delays.next_delay())


class Keeper:
    """Restarts a task that has failed, or that only Connect takes for running.

    A task that Connect could not stop in time ends later, and reports itself as running while it ends: then no task
    runs, and Connect does not show it.
    """

    def __init__(self, client: httpx2.Client, clock: Clock | None = None) -> None:
        self._client, self._clock = client, clock or SystemClock()
        self._reported_at = self._clock.time()

    def revived(self) -> bool:
        """Restart the task if it has to be; returns whether something was wrong, also if Connect does not answer."""
        try:
            state, reason = _state(self._client)
            if state == "FAILED":
                self._restart(f"failed: {reason}", only_failed=True)
                return True
            if state != "RUNNING" or _json(_call(self._client, "GET", f"/connectors/{NAME}/offsets")).get("offsets"):
                self._reported_at = self._clock.time()
            if self._clock.time() - self._reported_at < SILENT_SECONDS:
                return False
            self._restart("runs, and tells nothing", only_failed=False)
        except Retry as error:
            typer.echo(f"Kafka Connect does not answer: {error}")
        return True

    def _restart(self, why: str, *, only_failed: bool) -> None:
        typer.echo(f"connector {NAME} is restarted, it {why}")
        self._reported_at = self._clock.time()
        failed = str(only_failed).lower()
        _call(self._client, "POST", f"/connectors/{NAME}/restart?includeTasks=true&onlyFailed={failed}")


def _put(client: httpx2.Client, definition: dict[str, str]) -> None:
    """Give Connect the definition, unless it has that already: a running connector would be interrupted for nothing.

    The connector's task is started once: two would both try to make the replication slot.
    """
    is_stopped = _state(client)[0] == STOPPED
    current = _call(client, "GET", f"/connectors/{NAME}/config", accept=(httpx2.codes.NOT_FOUND,))
    if not current.is_success or _json(current) != definition | {"name": NAME}:
        _call(client, "PUT", f"/connectors/{NAME}/config", definition)
    elif not is_stopped:
        _call(client, "POST", f"/connectors/{NAME}/restart?includeTasks=true&onlyFailed=true")
    if is_stopped:
        _call(client, "PUT", f"/connectors/{NAME}/resume")


def _await_running(client: httpx2.Client, timeout: float) -> None:
    """Wait until the connector runs. Raises Unavailable with Connect's reason."""
    began = time.monotonic()
    state, reason = _state(client)
    while state != "RUNNING":
        # For a moment the status shown is the one before our request.
        if state == "FAILED" and time.monotonic() - began > SETTLE_SECONDS:
            raise Unavailable(f"connector {NAME} failed: {reason}")
        if time.monotonic() - began > timeout:
            raise Unavailable(f"connector {NAME} is still {state} after {timeout:g} s")
        time.sleep(LOOK_EVERY_SECONDS)
        state, reason = _state(client)


def _state(client: httpx2.Client) -> tuple[str, str]:
    """State of the connector and its task together, and the reason of a failure. RUNNING means that both run."""
    status = _json(_call(client, "GET", f"/connectors/{NAME}/status", accept=(httpx2.codes.NOT_FOUND,)))
    parts = [status.get("connector", {}), *(status.get("tasks") or [{}])]
    for part in parts:
        if part.get("state") != "RUNNING":
            return part.get("state", "unassigned"), _reason(part.get("trace", ""))
    return "RUNNING", ""


def _reason(trace: str) -> str:
    """The first line of a Java stack trace, and the innermost cause's."""
    lines = trace.splitlines()
    causes = [line for line in lines if line.startswith("Caused by:")]
    return "; ".join([*lines[:1], *causes[-1:]])


def _call(
    client: httpx2.Client, method: str, path: str, body: dict[str, str] | None = None, accept: tuple[int, ...] = ()
) -> httpx2.Response:
    """One request.

    Raises Retry while Connect is starting or rebalancing, Unreachable if there is none, InvalidConfiguration if it
    refuses.
    """
    try:
        response = client.request(method, path, json=body)
    except httpx2.HTTPError as error:
        failure = Unreachable if _has_no_server(error) else Retry
        raise failure(str(error) or type(error).__name__) from error
    if response.is_success or response.status_code in accept:
        return response
    message = _message(response)
    if response.status_code == httpx2.codes.CONFLICT or response.is_server_error:
        raise Retry(message)
    raise InvalidConfiguration(f"Connect refuses {DEFINITION.name}: {message}")


def _has_no_server(error: httpx2.HTTPError) -> bool:
    """Whether nothing listens there; a refused certificate means that something does."""
    if not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return False
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__
    return cause is None


def _json(response: httpx2.Response) -> Any:
    """Raises Retry if it is none: while Connect starts, its web server answers in its place."""
    try:
        return response.json()
    except ValueError as error:
        raise Retry(f"Kafka Connect is starting (HTTP {response.status_code})") from error


def _message(response: httpx2.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError):
        return f"HTTP {response.status_code}"
