"""Settings of the simulator. Read once, by the bootstrap."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.settings import EngineNamespaces


class SimulatorSettings(BaseSettings):
    """What the simulator needs to know; it has nothing to do with Kafka."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    engine_namespaces: EngineNamespaces = Field(
        description="Engine instances: id=namespace pairs, comma separated; Applications of these are served."
    )
    kubeconfig: Path | None = Field(default=None, description="Engine cluster; the pod's service account if left out.")
    simulator_sync_seconds: float = Field(default=0.2, ge=0, description="How long a sync seems to run.")
    simulator_concurrency: int = Field(default=4, ge=1, le=64, description="Calls in flight.")
    simulator_writes_per_sync: Annotated[Literal[1, 2, 9], BeforeValidator(int)] = Field(
        default=2, description="2 shows a running operation before its end, 1 only the end, 9 all that Argo CD says."
    )
    metrics_host: str = Field(default="127.0.0.1", description="Address that /metrics, /healthz and /readyz bind to.")
    metrics_port: int = Field(default=0, ge=0, le=65535, description="Port of the same; 0 picks a free one.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe line written."
    )
    log_format: Literal["json", "console"] = Field(default="json", description="json for machines, console for people.")
