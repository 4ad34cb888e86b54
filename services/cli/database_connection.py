"""Connections to the database, as its owner or as who only reads. What every command says of it is here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import typer

from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.planner.database.errors import decision_on, described, is_login_refused
from services.planner.database_url import check_database_url

OWNER, READER, BACKUP = "DATABASE_OWNER_URL", "DATABASE_READER_URL", "DATABASE_BACKUP_URL"
"""Variables of operators' environments."""


def checked_url(url: str) -> str:
    """``url``, if it says what a connection needs. Raises InvalidConfiguration."""
    if not url:
        raise InvalidConfiguration(f"set {READER} or {OWNER}, or give --url")
    try:
        check_database_url(url)
    except ValueError as error:
        raise InvalidConfiguration(f"{_source_of(url)}: {error}") from None
    return url


def _source_of(url: str) -> str:
    """Where an operator has it from, in words."""
    return next((name for name in (READER, OWNER, BACKUP) if os.environ.get(name) == url), "--url")


URL = typer.Option(
    ...,
    envvar=OWNER,
    callback=checked_url,
    help="postgresql://gitops_owner:…@host:port/gitops?sslmode=verify-full&sslrootcert=FILE",
)
READING_URL = typer.Option(
    "",  # not required: typer would call both variables a list when neither is set
    "--url",
    envvar=[READER, OWNER],
    callback=checked_url,
    help="postgresql://gitops_reader:…@host:port/gitops?sslmode=verify-full&sslrootcert=FILE",
)
"""Of commands that write nothing there; the owner may do that, too."""
SHORTEST_WAIT = 0.1
"""Seconds that a command may be told to wait: none would be no answer, whatever the database is like."""
TIMEOUT = typer.Option(30.0, min=SHORTEST_WAIT, help="Seconds to wait for the database.")


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    """A connection, committed at the end.

    Raises Retry if the database cannot do it now, NoPermission if it does not let us in, InvalidConfiguration.
    """
    try:
        with psycopg.connect(url) as connection:
            yield connection
    except psycopg.errors.UndefinedTable as error:
        raise InvalidConfiguration("the database is older than this build; run 'gitopsctl database upgrade'") from error
    except psycopg.Error as error:
        if is_login_refused(error):
            raise NoPermission(f"{_source_of(url)}: {described(error)}") from error
        if decision_on(error) is Retry:
            raise Retry(described(error)) from error
        # Without a primary message it is about a parameter of the URL, and the text shows parts of the password.
        reason = error.diag.message_primary or "a parameter is not one of PostgreSQL's"
        raise InvalidConfiguration(f"{_source_of(url)}: {reason}") from None
