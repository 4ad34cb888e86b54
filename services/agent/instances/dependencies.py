"""Settings and dependencies of an engine instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from services.agent.credentials import CredentialChecker
from services.agent.objects.cluster import Cluster, Follow
from services.agent.observe.observation_sink import ObservationSink
from services.common.clock import Clock


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """The part of the agent's settings that concerns an instance."""

    concurrency: int
    deletion_deadline: timedelta
    comparison_interval: timedelta
    orphan_grace: timedelta
    check_interval: timedelta
    failed_check_interval: timedelta


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What an instance acts on and reports to."""

    cluster: Cluster
    follow: Follow
    checker: CredentialChecker
    reports: ObservationSink
    clock: Clock
    on_defect: Callable[[BaseException], None]
