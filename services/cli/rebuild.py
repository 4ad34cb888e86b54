"""``gitopsctl rebuild``: fills a database that takes the place of a lost one, from the logs.

The planners do it: they read gitops.commands and gitops.observations from the beginning, as if all of it had just
happened. Nothing of that is streamed, because what was asked for last week would be deployed again until the log comes
to what is asked for today. The steps are an operator's, who sees between them what comes of the next:

1. ``gitopsctl connector stop``. Engines go on with what they have.
2. An empty database: ``gitopsctl database upgrade``, ``workspaces add``.
3. ``rebuild start`` tells it which instances there are, and where tenants were: a placement was decided once, and an
   instance that was added since would have it come out otherwise. Crash: run it again.
4. Planners are started, and replay. Watchers and agents are restarted: they report all there is.
5. ``rebuild follow`` waits for that, and compares the tables with their topics. Nothing is written.
6. ``gitopsctl connector apply`` streams a snapshot. A row whose digest is what agents know changes nothing.
7. ``rebuild sweep`` withdraws what the topics have and no row.

A database that was restored from a backup is not empty: ``rebuild start --restored`` takes the place of 2 and 3.
Planners go on at the consumer offsets that the backup holds, and replay what has happened since.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

import typer
from psycopg import Connection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from services.cli import connector, streamed_topics, topic_sweep
from services.cli.complete_lists import LoggedLists, Scope, added_workspaces, listed_kinds, read_lists
from services.cli.fleet_orders import fleet
from services.cli.live_placements import parse_kubeconfigs, read_placements
from services.cli.owner_connection import TIMEOUT, URL, connected
from services.cli.rebuild_start import END, Known, begin
from services.cli.sending import CLIENT
from services.cli.streamed_topics import Comparison, StreamedTopics, engine_rows, status_rows
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Retry
from services.common.kafka import (
    COMMANDS,
    FLEET_ORDERS,
    OBSERVATIONS,
    LogExtent,
    PartitionReader,
    TopicPartition,
    read_extents,
)
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
WAIT = typer.Option(600.0, help="Seconds to wait for newer lists, for Connect, and for agents.")
RESTORED = typer.Option(False, "--restored", help="The database is not empty: it was restored from a backup.")
ENGINES = typer.Option(
    None,
    "--engines",
    metavar="CLUSTER=FILE",
    envvar="ENGINE_KUBECONFIGS",
    help="Kubeconfig of an engine cluster: tenants of which no topic tells stay where their Applications are.",
)
CURRENT = typer.Option(False, "--current", help="The database was never lost: no rebuild was begun, or need be.")

POSITIONS = "SELECT topic, partition, first_offset, end_offset FROM rebuild_positions"
BEGAN = "SELECT (extract(epoch FROM min(began_at)) * 1000)::int8 FROM rebuild_positions"
OFFSETS = "SELECT topic, partition, next_offset FROM consumer_offsets"

Offsets = Mapping[TopicPartition, int]


@app.command()
def start(
    url: str = URL,
    timeout: float = TIMEOUT,
    engines: list[str] | None = ENGINES,
    *,
    incomplete: bool = INCOMPLETE,
    restored: bool = RESTORED,
) -> None:
    """Prepare a database that is empty or restored: tell it where tenants were, and note how far the logs go.

    Then start the planners. Needs KAFKA_…, SCHEMA_REGISTRY_…, CONNECT_… and DATABASE_OWNER_URL.
    """
    settings = load(KafkaSettings)
    if not await_dependency("Kafka Connect", connector.is_stopped, timeout):
        raise InvalidConfiguration("what is replayed would be deployed again; run 'gitopsctl connector stop' first")
    if not (restored or incomplete):
        _require_lists(settings, timeout)
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    known = await_dependency("Kafka", lambda: _known(settings, topics), timeout)
    if engines:
        known = _with_live_placements(known, engines, url, timeout)
    logs = await_dependency("Kafka", lambda: _logs(settings), timeout)
    first = await_dependency(
        "database", lambda: begin(url, known, logs, restored=restored, incomplete=incomplete), timeout
    )
    ends = _ends(logs)
    typer.echo(
        f"{len(known.placements)} tenants keep their instance; {_sum(first, ends, ends)} messages are to be replayed"
    )
    typer.echo("start the planners; restart watchers and agents; then run 'gitopsctl rebuild follow'")


@app.command()
def follow(url: str = URL, timeout: float = TIMEOUT, wait: float = WAIT) -> None:
    """Wait until planners have replayed the logs and newer lists, and tell how the tables differ from their topics."""
    settings = load(KafkaSettings)
    first, ends = await_dependency("database", lambda: _positions(url), timeout)
    _watch(url, "replayed", first, ends)
    # What the logs do not tell, because nobody wrote them or retention took it away, a list does.
    await_dependency("the newer lists", lambda: _require_newer_lists(url, settings), wait)
    # What watchers and agents have reported since, and users have changed.
    _watch(url, "up to now", ends, _ends(await_dependency("Kafka", lambda: _logs(settings), timeout)))
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    _print_comparisons(await_dependency("Kafka", lambda: _compared(url, topics), timeout))
    typer.echo("'gitopsctl connector apply' streams the tables; then 'gitopsctl rebuild sweep --dry-run'")


@app.command()
def compare(url: str = URL, wait: float = WAIT) -> None:
    """Wait until the topics of the compiled tables have every row, and tell how they differ."""
    settings = load(KafkaSettings)
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    _print_comparisons(await_dependency("Kafka Connect", lambda: _streamed(url, topics), wait))


@app.command()
def sweep(
    url: str = URL,
    timeout: float = TIMEOUT,
    wait: float = WAIT,
    approved: list[str] | None = APPROVED,
    *,
    dry_run: bool = DRY_RUN,
    current: bool = CURRENT,
) -> None:
    """Withdraw what the topics hold and no row, once every kind was listed since the rebuild began.

    Exits with 1 if the guard refuses.
    """
    settings = load(KafkaSettings)
    if current:
        await_dependency("database", lambda: _require_no_rebuild(url), timeout)
        read = _ends(await_dependency("Kafka", lambda: _logs(settings), timeout))
    else:
        await_dependency("the newer lists", lambda: _require_newer_lists(url, settings), wait)
        read = dict(_positions(url)[1])
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
    await_dependency("agents", lambda: topic_sweep.require_removed(url, settings, read), wait)
    if kept:
        typer.echo("what is kept may be wanted: run 'gitopsctl rebuild sweep' again; a rebuild goes on until then")
        return
    if current:
        return
    with connected(url) as connection:
        connection.execute(END)
    typer.echo("the rebuild is complete")


def _with_live_placements(known: Known, engines: Iterable[str], url: str, timeout: float) -> Known:
    """What topics tell of a tenant counts, before what its Applications tell."""
    stored = await_dependency("database", lambda: fleet(url), timeout)
    instances = {**stored.instances, **known.fleet}.values()
    kubeconfigs = parse_kubeconfigs(engines, sorted({each.engine_cluster for each in instances}))
    live = await_dependency("engine clusters", lambda: read_placements(kubeconfigs, instances), timeout)
    return replace(known, placements={**live, **known.placements})


def _require_lists(settings: KafkaSettings, timeout: float) -> None:
    """Raises InvalidConfiguration if an empty database could not be filled from the log."""
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    names = await_dependency("Kafka", lambda: added_workspaces(settings), timeout)
    lists = await_dependency("Kafka", lambda: read_lists(settings, COMMANDS, codec), timeout)
    if gaps := lists.find_gaps(names, listed_kinds()):
        raise InvalidConfiguration(f"the log lacks {len(gaps)} lists: see 'gitopsctl replay check'")


def _require_no_rebuild(url: str) -> None:
    with connected(url) as connection:
        if connection.execute(POSITIONS).fetchone() is not None:
            raise InvalidConfiguration("a rebuild is under way, and the database may lack rows; leave out --current")


def _placements(topics: StreamedTopics) -> dict[UUID, str]:
    found = ((tenant_of(lane), instance) for lane, instance in topics.placements().items())
    return {tenant: instance for tenant, instance in found if tenant is not None}


def _known(settings: KafkaSettings, topics: StreamedTopics) -> Known:
    return Known(topics.fleet(), _placements(topics), _extents(settings, FLEET_ORDERS))


def _logs(settings: KafkaSettings) -> dict[TopicPartition, LogExtent]:
    """Of each partition of the two logs that are replayed."""
    return _extents(settings, COMMANDS, OBSERVATIONS)


def _extents(settings: KafkaSettings, *topics: str) -> dict[TopicPartition, LogExtent]:
    with PartitionReader(settings, CLIENT) as reader:
        sources = reader.partitions_of(*topics)
    return read_extents(settings, CLIENT, sources)


def _ends(logs: Mapping[TopicPartition, LogExtent]) -> dict[TopicPartition, int]:
    return {source: log.end for source, log in logs.items()}


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
        found = {"engines": streamed_topics.compare(engine_rows(connection), topics.engine_digests())}
        for name in added_workspaces(topics.brokers):
            rows = status_rows(connection, name)
            found[f"statuses of {name}"] = streamed_topics.compare(rows, topics.status_digests(name))
    return found


def _streamed(url: str, topics: StreamedTopics) -> dict[str, Comparison]:
    """Raises Retry while a topic lacks a row."""
    found = _compared(url, topics)
    if new := sum(each.new for each in found.values()):
        raise Retry(f"{new} rows are not on their topics yet")
    return found


def _print_comparisons(found: Mapping[str, Comparison]) -> None:
    for name, each in found.items():
        typer.echo(
            f"{name}: {each.unchanged} rows unchanged, {each.differing} differing, {each.new} new, "
            f"{each.unknown} keys of the topic that no row has"
        )


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
