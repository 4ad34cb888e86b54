"""What surrounds an instance: the rules it is treated by, and what it acts on and reports to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from services.agent.clock import Clock
from services.agent.cluster import Cluster, Follow
from services.agent.composing import Composers
from services.agent.reports import Reports


@dataclass(frozen=True, slots=True)
class Rules:
    """How an instance is treated; from the settings."""

    concurrency: int
    deletion_deadline: timedelta
    comparison_interval: timedelta
    orphan_grace: timedelta
    check_interval: timedelta
    failed_check_interval: timedelta


@dataclass(frozen=True, slots=True)
class Outside:
    """What an instance acts on and reports to."""

    cluster: Cluster
    follow: Follow
    composers: Composers
    reports: Reports
    clock: Clock
    on_defect: Callable[[BaseException], None]
