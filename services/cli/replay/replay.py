"""``gitopsctl replay``: what the log of commands is good for, should the database be lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum

import orjson
import typer
from rich.console import Console
from rich.progress import Progress

from services.cli.replay.complete_lists import Gap, LoggedLists, added_workspaces, listed_kinds, read_lists
from services.cli.replay.replay_at import at
from services.common.avro import AvroCodec, SchemaRegistry, value_subject
from services.common.errors import InvalidConfiguration, Retry, Unavailable
from services.common.kafka import COMMANDS, kafka_at
from services.common.messages import Command
from services.common.settings import KafkaSettings, load

app = typer.Typer(help="The log of commands, from which a lost database is built anew.", no_args_is_help=True)

LOG = COMMANDS
INCOMPLETE = 1
"""Exit code."""

WORKSPACES = typer.Option(None, "--workspace", help="Look at this workspace; more than once; all that were added.")


class Format(StrEnum):
    """How a result is printed."""

    TEXT = "text"
    JSON = "json"


OUTPUT = typer.Option(Format.TEXT, "-o", "--output", help="As lines or as one JSON document.")


app.command()(at)


@app.command()
def check(workspaces: list[str] | None = WORKSPACES, output: Format = OUTPUT) -> None:
    """Prove that gitops.commands has a complete list of every workspace, kind and partition; or tell what it lacks.

    Exits with 1 if it lacks anything.
    """
    settings = load(KafkaSettings)
    try:
        names = workspaces or added_workspaces(settings)
        lists = _read(settings)
    except Retry as error:
        raise Unavailable(f"{kafka_at(settings)}: {error}") from error
    if not names:
        raise InvalidConfiguration("no workspace was added; run 'gitopsctl workspaces add', or name one by --workspace")
    gaps = lists.find_gaps(names, listed_kinds())
    typer.echo(_json(names, lists, gaps) if output is Format.JSON else _text(names, lists, gaps))
    if gaps:
        raise typer.Exit(INCOMPLETE)


def _read(settings: KafkaSettings) -> LoggedLists:
    """With a bar for whoever looks at a terminal."""
    codec = AvroCodec(SchemaRegistry(settings), Command, value_subject(COMMANDS))
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading the log", total=None)
        return read_lists(settings, LOG, codec, lambda read, total: bar.update(task, completed=read, total=total))


def _text(names: Sequence[str], lists: LoggedLists, gaps: Sequence[Gap]) -> str:
    lines = [str(gap) for gap in gaps]
    lines += [_complete(name, lists) for name in names if name not in {gap.scope.workspace for gap in gaps}]
    return "\n".join(lines)


def _complete(name: str, lists: LoggedLists) -> str:
    hours = (time.time() - min(_epochs(name, lists)) / 1000) / 3600
    return f"{name}: complete; the oldest of its newest lists began {hours:.1f} hours ago"


def _epochs(name: str, lists: LoggedLists) -> list[int]:
    return [found.epoch for scope, found in lists.newest.items() if scope.workspace == name]


def _json(names: Sequence[str], lists: LoggedLists, gaps: Sequence[Gap]) -> str:
    document = {
        "complete": not gaps,
        "workspaces": {name: {"oldest_epoch": min(_epochs(name, lists), default=None)} for name in names},
        "missing": [gap.scope._asdict() | {"reason": gap.reason} for gap in gaps],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
