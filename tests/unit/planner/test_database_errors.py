"""What follows from an error of PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import lookup

from services.common.errors import Permanent, Poison, Retry
from services.planner.database.errors import decision_on

DECISIONS = {
    "connection-lost": ("08006", Retry),
    "serialization-failure": ("40001", Retry),
    "deadlock": ("40P01", Retry),
    "read-only-transaction": ("25006", Retry),
    "idle-in-transaction-for-too-long": ("25P03", Retry),
    "transaction-took-too-long": ("25P04", Retry),
    "disk-full": ("53100", Retry),
    "out-of-memory": ("53200", Retry),
    "too-many-connections": ("53300", Retry),
    "lock-not-available": ("55P03", Retry),
    "statement-cancelled": ("57014", Retry),
    "shutdown": ("57P01", Retry),
    "cannot-connect-now": ("57P03", Retry),
    "input-or-output": ("58030", Retry),
    "configuration-file": ("F0000", Retry),
    "internal-error": ("XX000", Retry),
    "index-corrupted": ("XX002", Retry),
    "row-written-twice": ("21000", Poison),
    "number-out-of-range": ("22003", Poison),
    "unique-violation": ("23505", Poison),
    "index-row-too-long": ("54000", Poison),
    "active-transaction": ("25001", Permanent),
    "failed-transaction": ("25P02", Permanent),
    "no-privilege": ("42501", Permanent),
    "no-such-table": ("42P01", Permanent),
    "no-such-database": ("3D000", Permanent),
}


@pytest.mark.parametrize(("state", "expected"), DECISIONS.values(), ids=DECISIONS.keys())
def test_error_when_postgresql_says_its_state_then_the_class_of_that_decides(state: str, expected: type) -> None:
    assert decision_on(lookup(state)("…")) is expected


def test_error_when_psycopg_does_not_know_its_state_then_the_class_decides_all_the_same() -> None:
    unknown = psycopg.OperationalError("…")
    unknown.sqlstate = "53999"
    assert decision_on(unknown) is Retry


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.OperationalError("the connection is lost"), Retry),
        (psycopg.InterfaceError("the connection is closed"), Retry),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"), Poison),
        (psycopg.ProgrammingError("the query has 1 placeholder but 0 parameters were passed"), Permanent),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, psycopg.Error) else "",
)
def test_error_when_it_is_the_clients_then_its_type_decides(error: psycopg.Error, expected: type) -> None:
    assert decision_on(error) is expected
