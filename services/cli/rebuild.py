"""``gitopsctl rebuild``: fills a database that takes the place of a lost one, from the logs.

The planners do it: they read gitops.commands and gitops.observations from the beginning, as if all of it had just
happened. Nothing of that is streamed, because what was asked for last week would be deployed again until the log comes
to what is asked for today. The steps are an operator's, who sees between them what comes of the next:

1. ``gitopsctl connector stop``. Engines go on with what they have.
2. An empty database: ``gitopsctl database upgrade``, ``engines apply``, ``workspaces add``.
3. ``rebuild start`` tells it where tenants were: a placement was decided once, and an instance that was added since
   would have it come out otherwise. Crash: run it again.
4. Planners are started, and replay. Watchers and agents are restarted: they report all there is.
5. ``rebuild follow`` waits for that, and compares the tables with their topics. Nothing is written.
6. ``gitopsctl connector apply`` streams a snapshot. A row whose digest is what agents know changes nothing.
7. ``rebuild sweep`` withdraws what the topics have and no row.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from uuid import UUID

import typer
from psycopg import Connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from services.cli import connector, topic_sweep
from services.cli.complete_lists import LoggedLists, Scope, added_workspaces, listed_kinds, read_lists
from services.cli.owner_connection import TIMEOUT, URL, connected
from services.cli.sending import CLIENT
from services.cli.streamed_topics import Comparison, StreamedTopics, compare, engine_rows, status_rows
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import COMMANDS, OBSERVATIONS, PartitionReader, TopicPartition
from services.common.messages import Command
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency
from services.planner.domain.policy import SweepGuard
from services.planner.engines.argocd.names import tenant_of

app = typer.Typer(help="Fill a database that takes the place of a lost one, from the logs.", no_args_is_help=True)

LOOK_EVERY_SECONDS = 0.5
REFUSED = 1
"""Exit code."""

KEPT = "kept, of tenants and workspaces that the database may not know all of; --approve NAME withdraws them"

INCOMPLETE = typer.Option(False, "--incomplete", help="Go on although the log lacks lists: what it lacks is swept.")
DRY_RUN = typer.Option(False, "--dry-run", help="Tell what would be withdrawn, and change nothing.")
APPROVED = typer.Option(
    None, "--approve", help="Instance or workspace of which more may go, or WORKSPACE/NAMESPACE that is kept."
)
WAIT = typer.Option(600.0, help="Seconds to wait for newer lists, and for agents.")

IS_EMPTY = """
SELECT NOT EXISTS (SELECT FROM tenants)
   AND NOT EXISTS (SELECT FROM consumer_offsets WHERE next_offset > 0 OR owner IS NOT NULL)
"""
INSTANCES = "SELECT id FROM engine_instances"
PLACE = "INSERT INTO placements (tenant_id, engine_instance_id) SELECT * FROM unnest(%s::uuid[], %s::text[])"
BEGIN = """
INSERT INTO rebuild_positions (topic, partition, first_offset, end_offset)
SELECT * FROM unnest(%s::text[], %s::int4[], %s::int8[], %s::int8[])
"""
POSITIONS = "SELECT topic, partition, first_offset, end_offset FROM rebuild_positions"
BEGAN = "SELECT (extract(epoch FROM min(began_at)) * 1000)::int8 FROM rebuild_positions"
OFFSETS = "SELECT topic, partition, next_offset FROM consumer_offsets"
END = "DELETE FROM placements; DELETE FROM rebuild_positions"

Offsets = Mapping[TopicPartition, int]


@app.command()
def start(url: str = URL, timeout: float = TIMEOUT, *, incomplete: bool = INCOMPLETE) -> None:
    """Prepare an empty database: tell it where tenants were, and note how far the logs go. Then start the planners.

    Needs KAFKA_…, SCHEMA_REGISTRY_…, CONNECT_… and DATABASE_OWNER_URL.
    """
    settings = load(KafkaSettings)
    if not await_dependency("Kafka Connect", connector.is_stopped, timeout):
        raise InvalidConfiguration("what is replayed would be deployed again; run 'gitopsctl connector stop' first")
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    names = await_dependency("Kafka", lambda: added_workspaces(settings), timeout)
    lists = await_dependency("Kafka", lambda: read_lists(settings, COMMANDS, codec), timeout)
    if not incomplete and (gaps := lists.find_gaps(names, listed_kinds())):
        raise InvalidConfiguration(f"the log lacks {len(gaps)} lists: see 'gitopsctl replay check'")
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    placements = await_dependency("Kafka", lambda: _placements(topics), timeout)
    first, ends = await_dependency("Kafka", lambda: _log_offsets(settings), timeout)
    await_dependency("database", lambda: _begin(url, placements, first, ends), timeout)
    typer.echo(f"{len(placements)} tenants keep their instance; {_sum(first, ends, ends)} messages are to be replayed")
    typer.echo("start the planners; restart watchers and agents; then run 'gitopsctl rebuild follow'")


@app.command()
def follow(url: str = URL, timeout: float = TIMEOUT) -> None:
    """Wait until planners have replayed the logs, and tell how the tables then differ from their topics."""
    settings = load(KafkaSettings)
    first, ends = await_dependency("database", lambda: _positions(url), timeout)
    _watch(url, "replayed", first, ends)
    # What watchers and agents have reported since, and users have changed.
    _watch(url, "up to now", ends, await_dependency("Kafka", lambda: _log_offsets(settings), timeout)[1])
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    for name, found in await_dependency("Kafka", lambda: _compared(url, topics), timeout).items():
        typer.echo(
            f"{name}: {found.unchanged} rows unchanged, {found.differing} differing, {found.new} new, "
            f"{found.unknown} keys of the topic that no row has"
        )
    typer.echo("'gitopsctl connector apply' streams the tables; then 'gitopsctl rebuild sweep --dry-run'")


@app.command()
def sweep(
    url: str = URL,
    timeout: float = TIMEOUT,
    wait: float = WAIT,
    approved: list[str] | None = APPROVED,
    *,
    dry_run: bool = DRY_RUN,
) -> None:
    """Withdraw what the topics hold and no row, once every kind was listed since the rebuild began.

    Exits with 1 if the guard refuses.
    """
    settings = load(KafkaSettings)
    await_dependency("the newer lists", lambda: _require_newer_lists(url, settings), wait)
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    names = await_dependency("Kafka", lambda: added_workspaces(settings), timeout)
    found, kept = await_dependency(
        "Kafka", lambda: topic_sweep.find_unknown(url, topics, names, approved or ()), timeout
    )
    for line in (*found.described("that no row has"), *(kept.described(KEPT) if kept else ())):
        typer.echo(line)
    refused = found.refused(SweepGuard(), approved or ())
    for scope, reason in refused.items():
        typer.echo(f"{scope}: refused, {reason}; --approve {scope} does it", err=True)
    if refused:
        raise typer.Exit(REFUSED)
    if dry_run:
        return
    topic_sweep.withdraw(url, found)
    read = dict(_positions(url)[1])
    await_dependency("agents", lambda: topic_sweep.require_removed(url, settings, read), wait)
    if kept:
        typer.echo("what is kept may be wanted: the rebuild goes on, run 'gitopsctl rebuild sweep' again")
        return
    with connected(url) as connection:
        connection.execute(END)
    typer.echo("the rebuild is complete")


def _placements(topics: StreamedTopics) -> dict[UUID, str]:
    found = ((tenant_of(lane), instance) for lane, instance in topics.placements().items())
    return {tenant: instance for tenant, instance in found if tenant is not None}


def _log_offsets(settings: KafkaSettings) -> tuple[Offsets, Offsets]:
    """The first that each partition of the two logs still has, and the end."""
    with PartitionReader(settings, CLIENT) as reader:
        sources = reader.partitions_of(COMMANDS, OBSERVATIONS)
        return reader.first_offsets(sources), reader.end_offsets(sources)


def _begin(url: str, placements: Mapping[UUID, str], first: Offsets, ends: Offsets) -> None:
    """In one transaction. Raises InvalidConfiguration if the database is not empty, or lacks an instance."""
    with connected(url) as connection:
        if not connection.execute(IS_EMPTY).fetchone()[0]:  # type: ignore[index]
            raise InvalidConfiguration("the database is not empty: stop the planners, and take an empty one")
        known = {instance for (instance,) in connection.execute(INSTANCES)}
        if missing := sorted(set(placements.values()) - known):
            raise InvalidConfiguration(f"tenants are on {', '.join(missing)}; add them with 'gitopsctl engines apply'")
        connection.execute(END)
        connection.execute(PLACE, [list(placements), list(placements.values())])
        columns = [(*source, first[source], end) for source, end in sorted(ends.items())]
        connection.execute(BEGIN, [list(column) for column in zip(*columns, strict=True)])


def _positions(url: str) -> tuple[Offsets, Offsets]:
    with connected(url) as connection:
        rows = connection.execute(POSITIONS).fetchall()
    if not rows:
        raise InvalidConfiguration("no rebuild was begun; run 'gitopsctl rebuild start'")
    first = {TopicPartition(topic, number): offset for topic, number, offset, _ in rows}
    return first, {TopicPartition(topic, number): end for topic, number, _, end in rows}


def _offsets(connection: Connection) -> Offsets:
    return {TopicPartition(topic, number): offset for topic, number, offset in connection.execute(OFFSETS)}


def _sum(first: Offsets, ends: Offsets, reached: Offsets) -> int:
    """How many messages between ``first`` and ``ends`` were ``reached``."""
    return sum(min(max(reached.get(source, 0), first[source]), end) - first[source] for source, end in ends.items())


def _watch(url: str, what: str, first: Offsets, ends: Offsets) -> None:
    """Return when planners have come to ``ends``; with a bar for whoever looks at a terminal."""
    total, began, console = _sum(first, ends, ends), time.monotonic(), Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar, connected(url) as connection:
        connection.autocommit = True
        task = bar.add_task(what, total=total)
        while (done := _sum(first, ends, _offsets(connection))) < total:
            bar.update(task, completed=done)
            time.sleep(LOOK_EVERY_SECONDS)
        bar.update(task, completed=done)
    seconds = time.monotonic() - began
    typer.echo(f"{what}: {total} messages in {seconds:.1f} s, {total / max(seconds, LOOK_EVERY_SECONDS):.0f} a second")


def _compared(url: str, topics: StreamedTopics) -> dict[str, Comparison]:
    """Of the engines' table and of each workspace's statuses."""
    with connected(url) as connection:
        found = {"engines": compare(engine_rows(connection), topics.engine_digests())}
        for name in added_workspaces(topics.brokers):
            found[f"statuses of {name}"] = compare(status_rows(connection, name), topics.status_digests(name))
    return found


def _require_newer_lists(url: str, settings: KafkaSettings) -> None:
    """Raises Retry until planners have taken up a list of every kind that was complete after the rebuild began."""
    _, begun = _positions(url)
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    lists = read_lists(settings, COMMANDS, codec, since=begun)
    with connected(url) as connection:
        reached, (began,) = _offsets(connection), connection.execute(BEGAN).fetchone()  # type: ignore[misc]
    if missing := _not_listed(lists, lists.scopes(added_workspaces(settings), listed_kinds()), reached, began):
        raise Retry(f"not listed since the rebuild began: {', '.join(missing)}; restart their watchers")


def _not_listed(lists: LoggedLists, scopes: Iterable[Scope], reached: Offsets, began: int) -> list[str]:
    """Workspaces and kinds of which planners have not taken up a list that ``began`` then, or later."""
    missing = {
        f"{scope.workspace} {scope.kind}"
        for scope in scopes
        if (known := lists.newest.get(scope)) is None
        or known.epoch < began
        or reached.get(TopicPartition(COMMANDS, scope.partition), 0) <= known.end
    }
    return sorted(missing)
