"""What a command says of a database that does not let it in."""

from __future__ import annotations

import time
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from typer.testing import CliRunner

from services.cli.__main__ import app
from services.cli.database_connection import connected
from services.common.errors import NoPermission, Retry
from services.planner.database.errors import is_login_refused
from tests.component.conftest import Database

HIDDEN = "hunter2"


def with_login(url: str, login: str, port: int | None = None) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{login}@{parts.hostname}:{port or parts.port}"))


@pytest.mark.parametrize("login", [f"gitops_reader:{HIDDEN}", "gitops_reader"], ids=["wrong", "missing"])
def test_database_when_the_password_is_wrong_then_that_is_told_at_once_and_without_it(
    database: Database, login: str
) -> None:
    known = {"DATABASE_READER_URL": with_login(database.owner_url, login)}
    began = time.monotonic()
    refused = CliRunner(env=known).invoke(app, ["engines", "list", "--timeout", "600"])
    assert isinstance(refused.exception, NoPermission)
    assert str(refused.exception).startswith("DATABASE_READER_URL: ")
    assert "password" in str(refused.exception)
    assert HIDDEN not in str(refused.exception)
    assert time.monotonic() - began < 300


def test_database_when_the_password_is_wrong_then_its_upgrade_is_told_so_at_once(database: Database) -> None:
    known = {"DATABASE_OWNER_URL": with_login(database.owner_url, f"gitops:{HIDDEN}")}
    refused = CliRunner(env=known).invoke(app, ["database", "upgrade", "--timeout", "600"])
    assert isinstance(refused.exception, NoPermission)
    assert "password" in str(refused.exception)
    assert HIDDEN not in str(refused.exception)


REFUSED = 'connection failed: FATAL:  password authentication failed for user "a"'
NO_ROOM = "FATAL:  remaining connection slots are reserved"
NO_ENTRY = 'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "a", database "b", no encryption'


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        (REFUSED, True),
        ("connection failed: fe_sendauth: no password supplied", True),
        (f"connection failed: {NO_ENTRY}\n{NO_ENTRY}", True),
        (f"connection failed: {NO_ROOM}\n{NO_ENTRY}", False),
    ],
    ids=["wrong", "missing", "twice", "once there was no room"],
)
def test_login_when_each_attempt_is_refused_then_no_other_attempt_helps(said: str, *, is_refused: bool) -> None:
    assert is_login_refused(psycopg.OperationalError(said)) is is_refused


def test_database_when_nobody_listens_then_it_is_worth_another_try(database: Database) -> None:
    with (
        pytest.raises(Retry),
        connected(with_login(database.owner_url, f"gitops_reader:{HIDDEN}", port=9)),
    ):
        pass
