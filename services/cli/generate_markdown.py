"""The parts that generated pages of documentation are made of."""

from __future__ import annotations

from collections.abc import Iterable

Row = tuple[str, ...]


def table(headings: Row, rows: Iterable[Row]) -> str:
    """A table of which each row has as many cells as there are headings."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """What is to be read to the letter."""
    return f"`{text}`"
