"""The planner's settings."""

from __future__ import annotations

from datetime import timedelta

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, PostgresDsn, SecretStr, TypeAdapter, ValidationError, field_validator

from services.common.settings import ServiceSettings


class PlannerSettings(ServiceSettings):
    """Read from the environment, once."""

    database_url: SecretStr = Field(description="postgresql://gitops_planner:…@host:port/gitops")
    batch_limit: int = Field(default=500, ge=1, le=10_000, description="Most messages in one transaction.")
    resync_guard_share: float = Field(
        default=0.5, gt=0, le=1, description="A resync that would remove a greater share of a partition is refused."
    )
    resync_guard_minimum: int = Field(
        default=20, ge=0, description="So many resources a resync may always remove from a partition."
    )
    operations_kept: timedelta = Field(
        default=timedelta(days=30), gt=timedelta(0), description="How long audit rows of finished operations are kept."
    )

    @field_validator("database_url")
    @classmethod
    def _is_postgres(cls, url: SecretStr) -> SecretStr:
        try:
            TypeAdapter(PostgresDsn).validate_python(url.get_secret_value())
            conninfo_to_dict(url.get_secret_value())
        except (ValidationError, ProgrammingError):  # their texts show parts of the URL
            raise ValueError("not a URL of PostgreSQL; write postgresql://user:…@host:port/name") from None
        return url
