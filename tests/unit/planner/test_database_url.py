"""A database's URL: what is not checked is not called so."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from services.cli.guards import orphans
from services.cli.installation import database
from services.common.errors import InvalidConfiguration
from services.planner.database_url import check_database_url
from services.planner.settings import PlannerSettings

REQUIRED: dict[str, Any] = {"kafka_bootstrap_servers": "localhost:9092", "schema_registry_url": "http://localhost:8081"}
URL = "postgresql://planner:hunter2@localhost/gitops"
UNCHECKED = f"{URL}?sslrootcert=/ca.crt"


@pytest.mark.parametrize("mode", ["", "&sslmode=require", "&sslmode=prefer"])
def test_authority_when_the_mode_does_not_check_it_then_it_is_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="sslrootcert has no effect without sslmode=verify-full"):
        check_database_url(f"{UNCHECKED}{mode}")


@pytest.mark.parametrize("url", ["hunter2", "mysql://planner:hunter2@localhost/gitops", f"{URL}?hunter2=hunter2"])
def test_url_when_it_is_none_of_postgresql_then_it_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(ValueError, match="not a URL of PostgreSQL") as refusal:
        check_database_url(url)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "parameters",
    ["", "?sslmode=verify-full&sslrootcert=/ca.crt", "?sslrootcert=system", "?sslmode=require"],
)
def test_url_when_it_says_no_more_than_it_does_then_it_is_taken(parameters: str) -> None:
    settings = PlannerSettings(**REQUIRED, database_url=URL + parameters)
    assert settings.database_url.get_secret_value() == URL + parameters


def test_planner_when_the_authority_is_not_checked_then_its_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="sslrootcert has no effect"):
        PlannerSettings(**REQUIRED, database_url=UNCHECKED)


@pytest.mark.parametrize(("app", "command"), [(orphans.app, "list"), (database.app, "current")])
def test_command_of_operators_when_the_authority_is_not_checked_then_it_does_not_connect(
    app: Any, command: str
) -> None:
    outcome = CliRunner().invoke(app, [command], env={"DATABASE_OWNER_URL": UNCHECKED})
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert str(outcome.exception) == "DATABASE_OWNER_URL: sslrootcert has no effect without sslmode=verify-full"
