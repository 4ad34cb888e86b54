"""Statements made from rows (dataclasses) and tables: their columns are the fields of the row, in their order.

``save`` and ``load`` use the same order.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from sqlalchemy import Table

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
    table: Table,
    row: type[Any],
    kept: Collection[str] = (),
    stamps: Mapping[str, str] | None = None,
    only: str = "",
) -> str:
    """The statement that inserts rows, or brings those that are there up to date.

    Args:
        table: what it writes to; ``known`` is what is there.
        row: class of the rows.
        kept: columns that stay as they were first written.
        stamps: expressions for columns that are not of the row.
        only: condition without which what is there stays.
    """
    key = [column.name for column in table.primary_key]
    expressions = dict(stamps or {})
    columns = [*(field.name for field in fields(row)), *expressions]
    changing = [name for name in columns if name not in key and name not in kept]
    return " ".join(
        [
            f"INSERT INTO {table.name} AS known ({', '.join(table.columns[name].name for name in columns)})",
            f"SELECT {', '.join(['*', *expressions.values()])} FROM unnest({arrays(row)})",
            f"ON CONFLICT ({', '.join(key)}) DO UPDATE",
            f"SET {', '.join(f'{name} = EXCLUDED.{name}' for name in changing)}",
            f"WHERE {only}" if only else "",
        ]
    ).strip()


def _sql_type(hint: Any) -> str:
    if get_origin(hint) in {Union, types.UnionType}:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return SQL_TYPES[str if get_origin(hint) is Literal else hint]
