"""DATABASE_URL: what is not checked is not called so."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from services.planner.settings import PlannerSettings

REQUIRED: dict[str, Any] = {"kafka_bootstrap_servers": "localhost:9092", "schema_registry_url": "http://localhost:8081"}
URL = "postgresql://planner:hunter2@localhost/gitops"


@pytest.mark.parametrize("mode", ["", "&sslmode=require", "&sslmode=prefer"])
def test_authority_when_the_mode_does_not_check_it_then_it_is_refused(mode: str) -> None:
    with pytest.raises(ValidationError, match="sslrootcert has no effect without sslmode=verify-full"):
        PlannerSettings(**REQUIRED, database_url=f"{URL}?sslrootcert=/ca.crt{mode}")


@pytest.mark.parametrize(
    "parameters", ["", "?sslmode=verify-full&sslrootcert=/ca.crt", "?sslrootcert=system", "?sslmode=require"]
)
def test_url_when_it_says_no_more_than_it_does_then_it_is_taken(parameters: str) -> None:
    settings = PlannerSettings(**REQUIRED, database_url=URL + parameters)
    assert settings.database_url.get_secret_value() == URL + parameters
