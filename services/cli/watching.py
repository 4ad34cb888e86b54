"""What ``--watch`` tells a program: each row as a document of its own, and again whenever it has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from services.cli.output import Output, Row, print_document

T = TypeVar("T")


def look_every(seconds: float, look: Callable[[], T]) -> Iterator[T]:
    """What is seen at each look, without an end."""
    while True:
        yield look()
        time.sleep(seconds)


def print_changes(
    looks: Iterable[Sequence[Row]], output: Output, is_listed: Callable[[Row], bool] = lambda row: True
) -> None:
    """Show rows, and each that changes or is new.

    Args:
        looks: all rows as they are at each look; a row is told from others by its ``id``.
        output: JSON or YAML.
        is_listed: whether a row is shown at the first look. Later each change is, so that a program sees an end, too.
    """
    known: dict[str, Row] | None = None
    for rows in looks:
        if known is None:
            known = {row["id"]: row for row in rows if not is_listed(row)}
        for row in rows:
            if row != known.get(row["id"]):
                print_document(row, output)
        known = {row["id"]: row for row in rows}
