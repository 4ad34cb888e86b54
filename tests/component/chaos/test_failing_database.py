"""The proxy that makes queries fail changes no other query; what it makes fail, a real server has refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chaos.execution.failing_database import ERRORS, HOST, FailingDatabase
from tests.component.conftest import Database

SEED = 5
TRIES = 80


@asynccontextmanager
async def in_front_of(database: Database, share: float) -> AsyncIterator[tuple[str, FailingDatabase]]:
    """URL of the proxy, and the proxy."""
    parts = conninfo_to_dict(database.owner_url)
    proxy = FailingDatabase(int(str(parts["port"])), share, SEED)
    async with proxy.serving() as port:
        yield make_conninfo(**{**parts, "host": HOST, "port": port}), proxy


async def insert(url: str, number: int) -> str:
    """A row with this number in a transaction of its own; returns how that ended."""
    try:
        async with await AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("INSERT INTO written VALUES (%s)", (number,))
    except psycopg.Error as error:
        return error.sqlstate or "connection lost"
    return "done"


@pytest.fixture
def table(database: Database) -> Database:
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("CREATE TABLE written (number int)")
    return database


def written(database: Database) -> set[int]:
    with psycopg.connect(database.owner_url) as connection:
        return {number for (number,) in connection.execute("SELECT number FROM written")}


async def test_queries_when_none_shall_fail_then_they_are_answered_as_they_are(table: Database) -> None:
    async with in_front_of(table, share=0) as (url, proxy), await AsyncConnection.connect(url) as connection:
        async with connection.cursor().copy("COPY written FROM STDIN") as copy:
            for number in range(3):
                await copy.write_row((number,))
        async with connection.pipeline():
            found = await connection.execute("SELECT number FROM written ORDER BY number")
            await connection.execute("DELETE FROM written WHERE number = %s", (2,))
        assert await found.fetchall() == [(0,), (1,), (2,)]
        await connection.commit()
    assert written(table) == {0, 1}
    assert proxy.failed == 0


async def test_queries_when_each_shall_fail_then_each_way_is_seen_and_only_lost_answers_have_an_effect(
    table: Database,
) -> None:
    async with in_front_of(table, share=1) as (url, proxy):
        ends = [await insert(url, number) for number in range(TRIES)]
    counted = Counter(ends)
    assert set(counted) == {*ERRORS, "connection lost"}
    assert proxy.failed == TRIES
    lost = {number for number, end in enumerate(ends) if end == "connection lost"}
    carried_out = written(table)
    assert carried_out < lost  # the others of them never came to the server
    assert carried_out


async def test_transaction_when_a_query_of_it_fails_then_nothing_of_it_is_kept(table: Database) -> None:
    async with in_front_of(table, share=0.2) as (url, _):
        kept = set()
        for first in range(0, 4 * TRIES, 4):
            try:
                async with await AsyncConnection.connect(url) as connection:
                    for number in range(first, first + 3):
                        await connection.execute("INSERT INTO written VALUES (%s)", (number,))
                    await connection.execute("INSERT INTO written VALUES (%s)", (first + 3,))
            except psycopg.Error:
                continue
            kept.add(first)
    found = written(table)
    assert {number for first in kept for number in range(first, first + 4)} <= found
    assert all(set(range(number - number % 4, number - number % 4 + 4)) <= found for number in found)
    assert 0 < len(kept) < TRIES


async def test_proxy_when_its_time_is_over_then_connections_end(table: Database) -> None:
    async with in_front_of(table, share=0) as (url, _):
        connection = await AsyncConnection.connect(url)
    async with asyncio.timeout(30):
        with pytest.raises(psycopg.OperationalError):
            await connection.execute("SELECT")
