"""How rows (dataclasses) lie in the database: the columns of a statement are the fields of its row, in their order.

``persist`` fills arrays in that order and ``load`` cuts joined rows by it, so it is written down nowhere else.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

SQL_TYPES = {UUID: "uuid", str: "text", int: "int8", bool: "bool", datetime: "timestamptz"}
"""Narrower columns of the same sort take them: what does not fit is refused by the database."""


def names(row: type[Any], table: str = "") -> str:
    """Its columns; with the name under which a statement knows the table, if there is more than one."""
    return ", ".join(f"{table}.{field.name}" if table else field.name for field in fields(row))


def arrays(row: type[Any]) -> str:
    """A parameter for each column: the values of all rows, as an array."""
    hints = get_type_hints(row)
    return ", ".join(f"%b::{_sql_type(hints[field.name])}[]" for field in fields(row))


def values(rows: Sequence[Any]) -> list[list[Any]]:
    """These parameters for ``rows``, all of one class."""
    return [[getattr(row, field.name) for row in rows] for field in fields(rows[0])]


def width(row: type[Any]) -> int:
    """How many columns it has."""
    return len(fields(row))


def upsert(
    table: str, row: type[Any], key: Collection[str], kept: Collection[str] = (), written_at: str = "", only: str = ""
) -> str:
    """The statement that inserts rows, or brings those that are there up to date.

    Args:
        table: its name; ``known`` is what is there.
        row: class of the rows.
        key: columns of its primary key.
        kept: columns that stay as they were first written.
        written_at: expression for the column ``updated_at``; empty: there is none.
        only: condition without which what is there stays.
    """
    columns = [field.name for field in fields(row)]
    stamp = {"updated_at": written_at} if written_at else {}
    changing = [name for name in (*columns, *stamp) if name not in key and name not in kept]
    return " ".join(
        [
            f"INSERT INTO {table} AS known ({', '.join([*columns, *stamp])})",
            f"SELECT {', '.join(['*', *stamp.values()])} FROM unnest({arrays(row)})",
            f"ON CONFLICT ({', '.join(key)}) DO UPDATE",
            f"SET {', '.join(f'{name} = EXCLUDED.{name}' for name in changing)}",
            f"WHERE {only}" if only else "",
        ]
    )


def _sql_type(hint: Any) -> str:
    if get_origin(hint) in {Union, types.UnionType}:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return SQL_TYPES[str if get_origin(hint) is Literal else hint]
