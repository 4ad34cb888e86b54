"""``gitopsctl rebuild``: fills a database that takes the place of a lost one, from the logs.

The planners fill it: they read gitops.commands and gitops.observations.* from the beginning, as if all of it had just
happened. Connect streams nothing meanwhile: it would deploy last week's wishes again until the log comes to today's. An
operator takes the steps, and sees between them what the next one will do:

1. ``gitopsctl connector stop``. Engines go on with what they have.
2. An empty database: ``gitopsctl database upgrade``, ``workspaces add``.
3. ``rebuild start`` fills in the instances, and where tenants were: an instance that was added since would change
   placements that were decided before it. Crash: run it again.
4. Planners are started, and replay. Watchers and agents are restarted: they report all there is.
5. ``rebuild follow`` waits for the replay, and compares the tables with their topics. Nothing is written. It waits for
   the watchers' lists, too, if the log has none: otherwise resources that the log lacks would be undeployed. With
   ``--lists`` it always does: lists show the statuses of sync runs, so that none runs again.
6. ``gitopsctl connector apply`` streams a snapshot. A row whose digest is what agents know changes nothing.
7. ``rebuild sweep`` waits for the lists, and withdraws what the topics have and no row.

A database that was restored from a backup is not empty: ``rebuild start --restored`` takes the place of 2 and 3.
Planners go on at the consumer offsets that the backup holds, and replay what has happened since.

This module has the commands. ``start`` works by :mod:`start`; ``follow`` by :mod:`progress`, :mod:`awaited_lists` and
:mod:`table_comparison`; ``sweep`` by :mod:`unknown_rows` and :mod:`withdrawal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import typer

from services.cli.database_connection import TIMEOUT, URL
from services.cli.guards.approvals import name_of
from services.cli.installation import connector
from services.cli.output import tell
from services.cli.rebuild import unknown_rows, withdrawal
from services.cli.rebuild.awaited_lists import (
    find_awaited_workspaces,
    needs_newer_lists,
    require_lists,
    require_newer_lists,
)
from services.cli.rebuild.live_placements import add_live_placements
from services.cli.rebuild.progress import (
    Offsets,
    count_replayed,
    find_ends,
    positions,
    read_logs,
    read_offsets,
    require_no_rebuild,
    watch_replay,
)
from services.cli.rebuild.start import begin, end_rebuild, read_contents
from services.cli.rebuild.streamed_topics import StreamedTopics
from services.cli.rebuild.table_comparison import compare_streamed_tables, compare_tables, print_comparisons
from services.cli.rebuild.unknown_rows import SHOWN, Removal, Unknown
from services.common.avro import SchemaRegistry
from services.common.errors import InvalidConfiguration, Unavailable
from services.common.kafka import TopicPartition
from services.common.settings import KafkaSettings, load
from services.common.startup import await_dependency
from services.planner.domain.policy import SweepGuard
from services.planner.settings import PolicySettings

app = typer.Typer(help="Fill a database that takes the place of a lost one, from the logs.", no_args_is_help=True)

REFUSED, SOMETHING_KEPT = 1, 3
"""Exit codes."""

KEPT = "kept, of tenants and workspaces that the database may not know all of"

INCOMPLETE = typer.Option(
    False,
    "--incomplete",
    help="Go on although the log lacks lists (what it lacks is swept), or messages of topics cannot be decoded.",
)
UNREADABLE = typer.Option(
    False, "--pass-over-unreadable", help="Sweep although messages of the topics cannot be decoded."
)
DRY_RUN = typer.Option(False, "--dry-run", help="Tell what would be withdrawn, and change nothing.")
APPROVED = typer.Option(
    None,
    "--approve",
    metavar="NAME@DIGEST",
    help="As --dry-run tells it: of an instance or workspace more may go; of a tenant or workspace what is kept.",
)
WAIT = typer.Option(600.0, help="Seconds to wait for newer lists, for Connect, and for agents.")
STALL = typer.Option(300.0, "--stall", help="Seconds in which planners consume nothing, after which it is given up.")
RESTORED = typer.Option(False, "--restored", help="The database is not empty: it was restored from a backup.")
ENGINES = typer.Option(
    None,
    "--engines",
    metavar="CLUSTER=FILE",
    envvar="ENGINE_KUBECONFIGS",
    help="Kubeconfig of an engine cluster: tenants of which no topic tells stay where their Applications are.",
)
WITHOUT = typer.Option(
    None,
    "--without",
    metavar="WORKSPACE",
    help="Added workspace whose watchers are gone: its lists are not waited for, and nothing of it is withdrawn.",
)
LISTS = typer.Option(
    False, "--lists", help="Wait for newer lists in any case: no sync run that has run runs again, changes wait longer."
)
CURRENT = typer.Option(False, "--current", help="The database was never lost: no rebuild was begun, or need be.")


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
        require_lists(settings, timeout)
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    contents = await_dependency("Kafka", lambda: read_contents(settings, topics), timeout)
    _require_readable(topics, "--incomplete", is_given=incomplete)
    if engines:
        contents = add_live_placements(contents, engines, url, timeout)
    logs = await_dependency("Kafka", lambda: read_logs(settings), timeout)
    first = await_dependency(
        "database", lambda: begin(url, contents, logs, restored=restored, incomplete=incomplete), timeout
    )
    ends = find_ends(logs)
    messages = count_replayed(first, ends, ends)
    typer.echo(
        f"{len(contents.placements.tenants)} tenants keep their instance; {messages} messages are to be replayed"
    )
    typer.echo("start the planners; restart watchers and agents; then run 'gitopsctl rebuild follow'")


@app.command()
def follow(
    url: str = URL,
    timeout: float = TIMEOUT,
    wait: float = WAIT,
    stall: float = STALL,
    without: list[str] | None = WITHOUT,
    *,
    lists: bool = LISTS,
) -> None:
    """Wait until planners have replayed the logs, and tell how the tables differ from their topics.

    If what was replayed has no complete list of each kind, or with --lists, wait for newer ones, too. Exits with 69,
    and says which partitions are not replayed, if planners consume nothing for long.
    """
    settings = load(KafkaSettings)

    def replayed() -> Offsets:
        return await_dependency("database", lambda: read_offsets(url), timeout)

    with _to_be_repeated("rebuild follow"):
        names = find_awaited_workspaces(settings, without or (), timeout)
        first, ends = await_dependency("database", lambda: positions(url), timeout)
        needs_lists = lists or await_dependency(
            "Kafka", lambda: needs_newer_lists(settings, names, first, ends), timeout
        )
        watch_replay(replayed, "replayed", first, ends, stall)
        if needs_lists:
            # What the logs do not tell, because nobody wrote them or retention took it away, a list does.
            await_dependency("the newer lists", lambda: require_newer_lists(url, settings, names), wait)
        # What watchers and agents have reported since, and users have changed.
        now = find_ends(await_dependency("Kafka", lambda: read_logs(settings), timeout))
        watch_replay(replayed, "up to now", ends, now, stall)
        topics = StreamedTopics(settings, SchemaRegistry(settings))
        print_comparisons(await_dependency("Kafka", lambda: compare_tables(url, topics), timeout))
        _tell_unreadable(topics)
    typer.echo("'gitopsctl connector apply' streams the tables; then 'gitopsctl rebuild sweep --dry-run'")


@app.command()
def compare(url: str = URL, wait: float = WAIT) -> None:
    """Wait until the topics of the compiled tables have every row, and tell how they differ."""
    settings = load(KafkaSettings)
    topics = StreamedTopics(settings, SchemaRegistry(settings))
    with _to_be_repeated("rebuild compare"):
        print_comparisons(await_dependency("Kafka Connect", lambda: compare_streamed_tables(url, topics), wait))
        _tell_unreadable(topics)


@app.command()
def sweep(
    url: str = URL,
    timeout: float = TIMEOUT,
    wait: float = WAIT,
    approved: list[str] | None = APPROVED,
    without: list[str] | None = WITHOUT,
    *,
    dry_run: bool = DRY_RUN,
    current: bool = CURRENT,
    unreadable: bool = UNREADABLE,
) -> None:
    """Withdraw what the topics hold and no row, once every kind was listed since the rebuild began.

    Exits with 1 if the guard refuses, which is that of resyncs (RESYNC_GUARD_…, as planners have them): then nothing is
    withdrawn; with 2 if messages of the topics cannot be decoded, as nobody knows what they hold; with 3 if something
    is kept that may be wanted, or a workspace was not waited for. An approval is of exactly what was told with its
    name: if something else would go by now, it does not count.
    """
    _require_digests(approvals := approved or ())
    settings, guard = load(KafkaSettings), load(PolicySettings).policy.guard
    command = f"rebuild sweep{' --current' if current else ''}"
    with _to_be_repeated(command):
        names = find_awaited_workspaces(settings, without or (), timeout)
        if current:
            read = _from_now(url, settings, timeout)
        else:
            await_dependency("the newer lists", lambda: require_newer_lists(url, settings, names), wait)
            read = dict(await_dependency("database", lambda: positions(url), timeout)[1])
        topics = StreamedTopics(settings, SchemaRegistry(settings))
        found, kept, kept_for = await_dependency(
            "Kafka", lambda: unknown_rows.find_unknown(url, topics, names, approvals, without or ()), timeout
        )
        _tell_found(found, kept, kept_for)
        _require_readable(topics, "--pass-over-unreadable", is_given=unreadable)
        _check_guard(found, guard, approvals)
        if not dry_run:
            await_dependency("database", lambda: withdrawal.withdraw(url, found), timeout)
            await_dependency("agents", lambda: withdrawal.require_removed(url, settings, read), wait)
            typer.echo(f"withdrawn: {found.count}; kept: {kept.count}")
        if kept:
            tell(f"what is kept may be wanted: run 'gitopsctl {command}' again; a rebuild goes on until then")
        if missing := [each for each in kept_for if each.place in (without or ())]:
            named = ", ".join(map(name_of, missing))
            tell(f"not listed: sweep again with its watchers, or --approve {named} if they are gone")
        if kept or missing:
            raise typer.Exit(SOMETHING_KEPT)
        if dry_run or current:
            return
        await_dependency("database", lambda: end_rebuild(url), timeout)
    typer.echo("the rebuild is complete")


@contextmanager
def _to_be_repeated(command: str) -> Iterator[None]:
    """Add to an Unavailable what to run next: each step may be run again."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{error}; once that is mended, run 'gitopsctl {command}' again") from error


def _from_now(url: str, settings: KafkaSettings, timeout: float) -> dict[TopicPartition, int]:
    """The offsets to read agents' reports from, without a rebuild. Raises InvalidConfiguration if there is one."""
    await_dependency("database", lambda: require_no_rebuild(url), timeout)
    return find_ends(await_dependency("Kafka", lambda: read_logs(settings), timeout))


def _tell_found(found: Unknown, kept: Unknown, kept_for: Iterable[Removal]) -> None:
    for line in (*found.described("that no row has"), *(kept.described(KEPT) if kept else ())):
        typer.echo(line)
    for each in kept_for:
        typer.echo(f"{each.place}: {len(each.keys)} kept; --approve {name_of(each)} withdraws them")


def _check_guard(found: Unknown, guard: SweepGuard, approved: Collection[str]) -> None:
    """Raises Exit if an instance or a workspace would lose too much."""
    refused = found.refused(guard, approved)
    for each, reason in refused.items():
        tell(f"{each.place}: refused, {reason}; --approve {name_of(each)} does it")
    if refused:
        raise typer.Exit(REFUSED)


def _require_digests(approved: Collection[str]) -> None:
    """Raises InvalidConfiguration for an approval without the digest of what may go."""
    for name in approved:
        if "@" not in name:
            raise InvalidConfiguration(f"--approve {name}: say what may go, too, by the name that --dry-run tells")


def _require_readable(topics: StreamedTopics, consent: str, *, is_given: bool) -> None:
    """Name the messages that could not be decoded. Raises InvalidConfiguration for any, unless ``is_given``."""
    _tell_unreadable(topics)
    if topics.unreadable and not is_given:
        raise InvalidConfiguration(
            f"{len(topics.unreadable)} messages of topics cannot be decoded, so it is not known which rows they hold: "
            f"mend the schema registry, or go on without them by {consent}"
        )


def _tell_unreadable(topics: StreamedTopics) -> None:
    found = topics.unreadable
    for each in found[:SHOWN]:
        tell(f"not understood: {each}")
    if len(found) > SHOWN:
        tell(f"… and {len(found) - SHOWN} more")
