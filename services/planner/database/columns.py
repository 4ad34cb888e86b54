"""Statements made from rows (dataclasses, named tuples) and tables: their columns are the fields of the row.

``save`` and ``load`` use the same order. Rows are written as one parameter, a JSON text.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import orjson
from sqlalchemy import Table

from services.common.errors import Poison

SQL_TYPES = {UUID: "uuid", str: "text", int: "int8", bool: "bool", datetime: "timestamptz"}
"""Narrower columns of the same sort take them: what does not fit is refused by the database."""


def columns_of(row: type[Any]) -> tuple[str, ...]:
    """The names of its fields."""
    return getattr(row, "_fields", None) or tuple(field.name for field in fields(row))


def names(row: type[Any], table: str = "") -> str:
    """Its columns; with the name under which a statement knows the table, if there is more than one."""
    return ", ".join(f"{table}.{column}" if table else column for column in columns_of(row))


IDS = "(SELECT value::uuid FROM json_array_elements_text($1))"
"""The parameter, ids as :func:`document` makes it, as a table."""
NAMES = "(SELECT value FROM json_array_elements_text($1))"
"""The same for ids that are no uuid."""


def recordset(row: type[Any], name: str) -> str:
    """The parameter, rows as :func:`document` makes it, as a table with this name."""
    hints = get_type_hints(row)
    columns = ", ".join(f"{column} {_sql_type(hints[column])}" for column in columns_of(row))
    return f"json_to_recordset($1) AS {name}({columns})"


def split_columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    """``rows`` as ``count`` arrays, one for each column: parameters of ``unnest``."""
    return [[row[number] for row in rows] for number in range(count)]


def document(rows: Sequence[Any]) -> str:
    """The parameter that holds ``rows``, keys or ids: one text costs less than many arrays. Raises Poison."""
    try:
        return orjson.dumps(rows, default=_as_dict).decode()
    except TypeError as error:  # an integer of more than 64 bits, half a character
        raise Poison(f"the database would refuse it: {error}") from error


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
    columns = [*columns_of(row), *expressions]
    changing = [name for name in columns if name not in key and name not in kept]
    return " ".join(
        [
            f"INSERT INTO {table.name} AS known ({', '.join(table.columns[name].name for name in columns)})",
            f"SELECT {', '.join(['*', *expressions.values()])} FROM {recordset(row, 'written')}",
            f"ON CONFLICT ({', '.join(key)}) DO UPDATE",
            f"SET {', '.join(f'{name} = EXCLUDED.{name}' for name in changing)}",
            f"WHERE {only}" if only else "",
        ]
    ).strip()


def deletion(table: Table, key: type[Any]) -> str:
    """The statement that deletes rows by keys of this class: the table's key, and what else a row has to agree in."""
    return (
        f"DELETE FROM {table.name} AS known USING {recordset(key, 'gone')}"
        f" WHERE ({names(key, 'known')}) = ({names(key, 'gone')})"
    )


def _sql_type(hint: Any) -> str:
    if get_origin(hint) in {Union, types.UnionType}:
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return SQL_TYPES[str if get_origin(hint) is Literal else hint]


def _as_dict(key: Any) -> dict[str, Any]:
    """Of a named tuple, which orjson does not take for a record."""
    return dict(key._asdict())
