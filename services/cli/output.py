"""How commands show a list or a tree: a table or a tree for people, JSON or YAML for programs. The same values in each.

Much of what is shown was written by tenants, so no table lets control characters or markup through to the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson
import typer
import yaml
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from services.kinds.shared.text import readable

Row = Mapping[str, Any]
"""Values that JSON has, by their name in it, and times."""

WIDE = 250
"""Columns of a table that goes to no terminal."""


_RAW_CONTROLS = re.compile(r"[\x7f-\x9f]")
"""Control characters that JSON need not escape."""


class Output(StrEnum):
    """As ``-o`` says it."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OUTPUT = typer.Option(Output.TABLE, "-o", "--output", help="How to show it.")


def print_rows(rows: Sequence[Row], columns: Mapping[str, str], output: Output, nothing: str) -> None:
    """Show ``rows``.

    Args:
        rows: in the order in which they are shown.
        columns: of a table: heading by name of the value. JSON and YAML have every value.
        output: how.
        nothing: what is said in place of a table without rows.
    """
    if output is not Output.TABLE:
        print_values(list(rows), output)
    elif rows:
        console().print(table_of(rows, columns))
    else:
        typer.echo(nothing)


def print_rendered(values: Any, rendered: Callable[[], RenderableType], output: Output) -> None:
    """Show ``values``; people are shown ``rendered``, such as a tree, in place of a table of them."""
    if output is Output.TABLE:
        console().print(rendered())
    else:
        print_values(values, output)


def print_values(values: Any, output: Output, indent: int = orjson.OPT_INDENT_2) -> None:
    """Show ``values`` as JSON or YAML."""
    if output is Output.JSON:
        text = orjson.dumps(values, option=indent | orjson.OPT_UTC_Z).decode()
        typer.echo(_RAW_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
    else:
        plain = orjson.loads(orjson.dumps(values, option=orjson.OPT_UTC_Z))
        typer.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)


def print_document(row: Row, output: Output) -> None:
    """Show one row of a stream: in a line of its own, or after a line that separates documents."""
    if output is Output.YAML:
        typer.echo("---")
    print_values(row, output, indent=0)


def tell(text: str) -> None:
    """Something about what is shown, where it does not end in a program's input."""
    typer.echo(text, err=True)


def console() -> Console:
    """Where tables go: the terminal, or as wide as it takes."""
    return Console(width=None if sys.stdout.isatty() else WIDE)


def table_of(rows: Sequence[Row], columns: Mapping[str, str]) -> Table:
    """``rows`` as a table; its headings by name of the value."""
    table = Table(*columns.values(), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in columns))
    return table


def _cell(value: Any) -> str:
    match value:
        case None | "" | []:
            return "-"
        case list():
            return ", ".join(map(_cell, value))
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
        case _:
            return readable(str(value))
