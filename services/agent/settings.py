"""Settings of the agent. Read once, by the bootstrap."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from services.common.addresses import AddressPolicy
from services.common.kafka import ENGINE, OBSERVATIONS
from services.common.settings import EngineNamespaces, ServiceSettings, parse_engine_namespaces

AllowedAddresses = Annotated[AddressPolicy, NoDecode]


class AgentSettings(ServiceSettings):
    """What an agent needs to know."""

    engine_namespaces: EngineNamespaces = Field(
        description="Engine instances: id=namespace pairs, comma separated; a bare namespace is its own id."
    )
    kubeconfig: Path | None = Field(default=None, description="Engine cluster; the pod's service account if left out.")
    agent_group: str = Field(
        default="gitops-agent",
        pattern=r"^[a-zA-Z0-9._-]{1,100}$",
        description="Consumer group.",
    )
    engine_topic: str = Field(default=ENGINE, description="Topic of compiled rows; as in compose/topics.yaml.")
    observations_topic: str = Field(default=OBSERVATIONS, description="Topic of observations.")
    concurrency_per_instance: int = Field(
        default=8, ge=1, le=64, description="Calls in flight per engine instance; above 8 an API server gains nothing."
    )
    deletion_deadline_seconds: float = Field(
        default=300, gt=0, description="After this long a deletion the engine has not finished is forced."
    )
    comparison_interval_seconds: float = Field(
        default=300, gt=0, description="Between two full comparisons of an instance with its desired state."
    )
    orphan_grace_seconds: float = Field(
        default=600, gt=0, description="How long an object of ours may be desired by no row before it is deleted."
    )
    sealing_private_keys: Path = Field(
        description="JWK set of private keys, every one that something may be sealed under; read again when it changes."
    )
    allowed_addresses: AllowedAddresses = Field(
        default=AddressPolicy(),
        description="Networks that tenants' servers may be in although they are loopback, link-local or the like; "
        "as the planner's.",
    )
    ssh_known_hosts: Path | None = Field(
        default=None,
        description="OpenSSH known_hosts file of the git servers that tenants may reach by ssh; none if left out.",
    )
    git_authorities: Path | None = Field(
        default=None, description="PEM file of authorities that git servers may have besides the system's."
    )
    check_interval_seconds: float = Field(
        default=600, ge=30, description="Between two checks of the credentials of an environment or repository."
    )
    failed_check_interval_seconds: float = Field(
        default=60, ge=10, description="At most this long after a failed check the next one is made."
    )
    token_lifetime_seconds: float = Field(
        default=86_400,
        ge=3600,
        description="Of tokens of service accounts made on tenants' clusters; renewed at half of it.",
    )
    checks_at_once: int = Field(default=16, ge=1, le=256, description="Checks of credentials at once, overall.")
    checks_at_once_per_tenant: int = Field(default=2, ge=1, le=64, description="The same, of one tenant.")
    session_timeout_seconds: float = Field(
        default=6, ge=1, le=300, description="Silence after which the broker gives an agent's partitions to another."
    )
    commit_interval_seconds: float = Field(default=1, gt=0, description="Between two commits of offsets.")

    @field_validator("allowed_addresses", mode="before")
    @classmethod
    def _parse_addresses(cls, value: object) -> object:
        return AddressPolicy.parse(value) if isinstance(value, str) else value

    @field_validator("ssh_known_hosts", "git_authorities")
    @classmethod
    def _is_a_file(cls, path: Path | None) -> Path | None:
        if path is not None and not path.is_file():
            raise ValueError(f"{path} is no file")
        return path

    @field_validator("engine_namespaces", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return parse_engine_namespaces(value) if isinstance(value, str) else value
