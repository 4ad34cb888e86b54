"""The watcher's settings, one environment variable each."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from services.common.settings import ServiceSettings


class WatcherSettings(ServiceSettings):
    """What the watcher needs to know."""

    workspace: str = Field(
        default="local",
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$",
        description="Name of the workspace cluster that is watched: the first half of every tenant's key.",
    )
    kubeconfig: Path | None = Field(
        default=None, description="Credentials of the workspace cluster; the pod's service account if left out."
    )
    max_spec_bytes: int = Field(
        default=256 * 1024,
        ge=1024,
        le=2 * 1024 * 1024,
        description="Longest spec, as JSON, that is passed on; of a longer one the planner only learns that it is.",
    )
    commands_in_flight: int = Field(
        default=10_000, ge=1, description="Commands that Kafka has not acknowledged, before reading on waits."
    )
    status_writers: int = Field(
        default=8, ge=1, le=64, description="Statuses written at a time; an API server gains nothing from more."
    )
    statuses_waiting: int = Field(
        default=5_000, ge=1, description="Resources whose status waits to be written, before consuming pauses."
    )
