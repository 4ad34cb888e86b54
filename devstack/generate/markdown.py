"""The parts that generated pages are made of, and the parts of files that are generated."""

from __future__ import annotations

import re
from collections.abc import Iterable

Row = tuple[str, ...]


def table(headings: Row, rows: Iterable[Row]) -> str:
    """A table of which each row has as many cells as there are headings."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """What is to be read to the letter."""
    return f"`{text}`"


def with_block(text: str, name: str, body: str) -> str:
    """``text`` with ``body`` between the two lines that hold ``<name>: begin`` and ``<name>: end``, in any comment."""
    block = re.compile(rf"(^.*{name}: begin.*\n)(?:.*\n)*?(^.*{name}: end)", re.MULTILINE)
    written, count = block.subn(lambda found: found[1] + body + found[2], text)
    if count != 1:
        raise ValueError(f"one block of {name} was expected, there are {count}")
    return written
