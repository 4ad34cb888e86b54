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

    concurrency: int = 8
    deletion_deadline: timedelta = timedelta(seconds=60)
    comparison_interval: timedelta = timedelta(seconds=300)
    orphan_grace: timedelta = timedelta(seconds=600)
    check_interval: timedelta = timedelta(seconds=600)
    failed_check_interval: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Outside:
    """What an instance acts on and reports to."""

    cluster: Cluster
    follow: Follow
    composers: Composers
    reports: Reports
    clock: Clock
    on_defect: Callable[[BaseException], None]
