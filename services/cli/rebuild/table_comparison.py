"""How the compiled tables differ from their topics, in rows.

Called by :mod:`rebuild`, which shows it to operators: by ``rebuild follow`` before Connect streams the tables, and by
``rebuild compare`` afterwards. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import typer

from services.cli.database_connection import connected
from services.cli.rebuild.streamed_topics import Key, StreamedTopics, child_rows, claim_rows, engine_rows, status_rows
from services.cli.replay.complete_lists import added_workspaces
from services.common.errors import Retry


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a table and its topic differ, in rows."""

    unchanged: int
    differing: int
    new: int
    """Of which the topic knows nothing."""
    unknown: int
    """Keys of the topic that no row has."""


def compare(rows: Mapping[Key, str], streamed: Mapping[Key, str]) -> Comparison:
    """Rows of a table with what its topic holds."""
    both = [key for key in rows if key in streamed]
    unchanged = sum(rows[key] == streamed[key] for key in both)
    return Comparison(unchanged, len(both) - unchanged, len(rows) - len(both), len(streamed) - len(both))


def compare_tables(url: str, topics: StreamedTopics) -> dict[str, Comparison]:
    """Compare the engines' table, each workspace's statuses and child objects, and pending claims, by what they are.

    Raises Retry.
    """
    with connected(url) as connection:
        found = {"engines": compare(engine_rows(connection), topics.engine_digests())}
        found["pending claims"] = compare(claim_rows(connection), topics.claim_contents())
        for name in added_workspaces(topics.brokers):
            rows = status_rows(connection, name)
            found[f"statuses of {name}"] = compare(rows, topics.status_digests(name))
            children = child_rows(connection, name)
            found[f"child objects of {name}"] = compare(children, topics.child_digests(name))
    return found


def compare_streamed_tables(url: str, topics: StreamedTopics) -> dict[str, Comparison]:
    """The same, once the topics have every row. Raises Retry while one lacks a row."""
    found = compare_tables(url, topics)
    if new := sum(each.new for each in found.values()):
        raise Retry(f"{new} rows are not on their topics yet")
    return found


def print_comparisons(found: Mapping[str, Comparison]) -> None:
    """Print a line for each table."""
    for name, each in found.items():
        typer.echo(
            f"{name}: {each.unchanged} rows unchanged, {each.differing} differing, {each.new} new, "
            f"{each.unknown} keys of the topic that no row has"
        )
