"""The planner's settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, PostgresDsn, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_settings import NoDecode

from services.common.addresses import AddressPolicy
from services.common.settings import AllowedAddresses, ServiceSettings
from services.planner.kinds.limits import MEBIBYTE
from services.planner.rules import CONFINING_KINDS, GroupKind


class PlannerSettings(ServiceSettings):
    """Read from the environment, once."""

    database_url: SecretStr = Field(description="The database: postgresql://gitops_planner:…@host:port/gitops")
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

    allowed_addresses: AllowedAddresses = Field(
        default=AddressPolicy(),
        description="Networks that tenants may name although they are loopback or link-local, e.g. 127.0.0.0/8.",
    )
    local_workspaces: Annotated[frozenset[str], NoDecode] = Field(
        default=frozenset({"local"}),
        description="Workspaces whose cluster is the engines' own: only there a deployment needs no environment.",
    )
    refused_kinds: Annotated[frozenset[GroupKind], NoDecode] = Field(
        default=CONFINING_KINDS,
        description="Kinds that tenants with a namespace on the engines' own cluster may not deploy: Kind, group/Kind.",
    )
    tenant_deployments: int = Field(default=1000, ge=0, description="GitOpsDeployments a tenant may have.")
    tenant_environments: int = Field(default=100, ge=0, description="ManagedEnvironments a tenant may have.")
    tenant_destinations: int = Field(
        default=2000, ge=0, description="Namespaces that a tenant's environments may list together."
    )
    tenant_credentials: int = Field(default=100, ge=0, description="RepositoryCredentials a tenant may have.")
    tenant_sync_runs: int = Field(default=200, ge=0, description="SyncRuns a tenant may have, ended ones included.")
    tenant_secrets: int = Field(default=200, ge=0, description="Secrets of the two types a tenant may have.")
    tenant_bytes: int = Field(
        default=16 * MEBIBYTE, ge=0, description="Length of all specs and sealed Secrets a tenant may have."
    )

    sync_runs_kept: timedelta = Field(
        default=timedelta(days=15),
        gt=timedelta(0),
        description="How long ended runs are remembered after their CR is gone; longer than gitops.commands are kept.",
    )

    @field_validator("local_workspaces", mode="before")
    @classmethod
    def _parse_workspaces(cls, value: object) -> object:
        return frozenset(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("refused_kinds", mode="before")
    @classmethod
    def _parse_kinds(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return frozenset(GroupKind.parse(each) for each in map(str.strip, value.split(",")) if each)

    @field_validator("database_url")
    @classmethod
    def _is_postgres(cls, url: SecretStr) -> SecretStr:
        try:
            TypeAdapter(PostgresDsn).validate_python(url.get_secret_value())
            conninfo_to_dict(url.get_secret_value())
        except (ValidationError, ProgrammingError):  # their texts show parts of the URL
            raise ValueError("not a URL of PostgreSQL; write postgresql://user:…@host:port/name") from None
        return url
