"""Settings of the agent. Read once, by the bootstrap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from services.common.kafka import ENGINE, OBSERVATIONS
from services.common.settings import EngineNamespaces, ServiceSettings, parse_engine_namespaces


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
    session_timeout_seconds: float = Field(
        default=6, ge=1, le=300, description="Silence after which the broker gives an agent's partitions to another."
    )
    commit_interval_seconds: float = Field(default=1, gt=0, description="Between two commits of offsets.")

    @field_validator("engine_namespaces", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return parse_engine_namespaces(value) if isinstance(value, str) else value
