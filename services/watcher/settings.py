"""The watcher's settings, one environment variable each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from services.common.kafka import WORKSPACE_NAME
from services.common.settings import ServiceSettings


class WatcherSettings(ServiceSettings):
    """Settings of a watcher."""

    workspace: str = Field(
        default="local",
        pattern=WORKSPACE_NAME,
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
    sealing_public_keys: Path = Field(
        description="JWK set of the agents' public keys; of each engine cluster, and of those that name none, the "
        "first one seals. Read again when the file changes."
    )
    max_secret_bytes: int = Field(
        default=128 * 1024,
        ge=1024,
        le=1024 * 1024,
        description="Largest content of a Secret, as JSON, that is sealed or copied; a larger one is only reported as "
        "too large.",
    )
    tenant_changes_per_second: float = Field(
        default=50, gt=0, description="Changes of one tenant passed on in the long run; more wait, the latest counts."
    )
    tenant_change_burst: int = Field(default=500, ge=1, description="Changes of one tenant passed on at once.")
    listed_per_second: int = Field(
        default=500,
        ge=1,
        description="Resources that lists show passed on in a second: a planner should keep up, or new changes wait.",
    )
    resync_interval: timedelta = Field(
        default=timedelta(days=3),
        ge=timedelta(minutes=1),
        le=timedelta(days=6),
        description="Each kind is listed anew once in this time, kinds in turn: gitops.commands forgets after 14 days.",
    )
    commands_in_flight: int = Field(
        default=10_000, ge=1, description="Commands that Kafka has not acknowledged, before reading on waits."
    )
    status_writers: int = Field(
        default=8, ge=1, le=64, description="Statuses written at a time; an API server gains nothing from more."
    )
    statuses_waiting: int = Field(
        default=20_000,
        ge=1,
        description="Resources whose status waits to be written, before consuming pauses; likewise child objects.",
    )
    object_writers: int = Field(
        default=8, ge=1, le=64, description="Child objects applied at a time, of each namespace at most four."
    )
    leader_election: bool = Field(
        default=False, description="Whether several watchers serve the workspace: one of them follows it, by a Lease."
    )
    leader_election_namespace: str = Field(
        default="gitops-service", pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="Where the Lease is."
    )
    lease_seconds: int = Field(
        default=9, ge=3, le=300, description="How long after its last sign of life a leader is replaced."
    )
