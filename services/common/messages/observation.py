"""Observations: what an agent did or saw. Written by agents, read by the planner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Applied:
    """The object is as desired."""

    digest: str
    drift_repaired: bool = False


@dataclass(frozen=True, slots=True)
class StatusReported:
    """The engine reports a status of the object; ``status`` is JSON text."""

    status: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Removed:
    """The object desired absent is gone; ``forced`` if its finalizers had to be removed."""

    forced: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The object cannot be made as desired."""

    digest: str
    permanent: bool
    message: str


ObservationEvent = Applied | StatusReported | Removed | Failed


@dataclass(frozen=True, slots=True)
class Observation:
    """One event about one object on an engine instance."""

    workspace: str
    namespace: str
    engine_instance_id: str
    kind: str
    name: str
    observed_at: datetime
    event: ObservationEvent
