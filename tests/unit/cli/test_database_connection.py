"""A URL that cannot be used is named as the operator has given it."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from services.cli.database_connection import READING_URL
from services.common.errors import InvalidConfiguration

WRONG = "postgresql://user@host/gitops?sslrootcert=ca.crt"
RIGHT = "postgresql://user@host/gitops?sslmode=disable"

app = typer.Typer()


@app.command()
def look(url: str = READING_URL) -> None:
    """Show where it would look."""
    typer.echo(url)


@pytest.mark.parametrize(
    ("variables", "arguments", "named"),
    [
        ({"DATABASE_READER_URL": WRONG, "DATABASE_OWNER_URL": RIGHT}, [], "DATABASE_READER_URL"),
        ({"DATABASE_OWNER_URL": WRONG}, [], "DATABASE_OWNER_URL"),
        ({"DATABASE_READER_URL": RIGHT}, ["--url", WRONG], "--url"),
    ],
)
def test_url_when_wrong_then_the_message_names_where_it_is_from(
    variables: dict[str, str], arguments: list[str], named: str
) -> None:
    outcome = CliRunner(env=variables).invoke(app, arguments)
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert str(outcome.exception) == f"{named}: sslrootcert has no effect without sslmode=verify-full"


@pytest.mark.parametrize(
    ("variables", "used"),
    [
        ({"DATABASE_READER_URL": RIGHT, "DATABASE_OWNER_URL": WRONG}, RIGHT),
        ({"DATABASE_OWNER_URL": RIGHT}, RIGHT),
    ],
)
def test_look_when_there_is_a_url_of_the_reader_then_it_is_taken_and_otherwise_the_owners(
    variables: dict[str, str], used: str
) -> None:
    assert CliRunner(env=variables).invoke(app).stdout == f"{used}\n"


def test_look_when_there_is_no_url_then_both_variables_are_named() -> None:
    outcome = CliRunner(env={"DATABASE_READER_URL": None, "DATABASE_OWNER_URL": None}).invoke(app)
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert str(outcome.exception) == "set DATABASE_READER_URL or DATABASE_OWNER_URL, or give --url"
