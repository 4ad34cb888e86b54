"""Which engine instances are ill, and which of them share the cause with others. Pure.

If too many instances of the fleet, or of one engine cluster, are ill at once, they share the cause
(``shared_cause.py``), and nothing is done for each alone. Two kinds of instances do not count: drained ones, because
what a failed rollout leaves may stay ill; and those of an engine cluster that an operator drains, so that tenants leave
a cluster that is lost. An instance that was never ready is not ill: operators see what it lacks
(``pools/readiness.py``), and an instance in its place would lack the same. ``remediation.py`` decides on what is found
here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.reports.report_rows import InstanceHealth
from services.planner.domain.fleet.rows import EngineInstanceRow
from services.planner.domain.fleet.shared_cause import is_cause_shared
from services.planner.domain.policy import RemedyPolicy

LOOK_AGAIN = 0.2
"""When to look again at an instance that waits for something else than time, as a share of a restart's time."""


@dataclass(frozen=True, slots=True)
class Illness:
    """An instance that is ill, with its newest health report and its row."""

    instance: EngineInstanceRow
    health: InstanceHealth
    remediation: Remediation

    @property
    def reason(self) -> str:
        """In words for operators."""
        return self.health.message or self.health.reason


@dataclass(frozen=True, slots=True)
class Look:
    """What decisions of one look at the fleet are made from."""

    fleet: Fleet
    now: datetime
    policy: RemedyPolicy
    stranded: Mapping[str, str]
    """Ids of instances of which no tenant can leave and none is on its way, each with the rule that keeps the first."""

    @property
    def next_at(self) -> datetime:
        """When to look again at an instance that waits for something else than time."""
        return self.now + self.policy.cool_down * LOOK_AGAIN


def find_illnesses(rows: Mapping[str, Remediation], fleet: Fleet, now: datetime) -> dict[str, Illness]:
    """Instances that are ill, by their ids, each with its row of ``rows`` or a new one; the longest ill is first."""
    found = [
        Illness(row, health, rows.get(row.id) or _new_remediation(row.id, now))
        for row in fleet.instances.values()
        if row.is_in_service and (health := fleet.health.get(row.id)) is not None and health.is_ill
    ]
    ordered = sorted(found, key=lambda each: (each.health.since, each.instance.id))
    return {each.instance.id: each for each in ordered}


def _new_remediation(instance: str, now: datetime) -> Remediation:
    return Remediation(instance, "waiting", 0, "", "[]", is_cordoned=False, message="", since=now, due_at=None)


def find_shared_causes(ill: Collection[str], fleet: Fleet) -> dict[str, str]:
    """Instances that are ill for a cause that they share in the fleet or in their cluster, each with a message."""
    message = _shared_cause(fleet.instances.values(), fleet, ill)
    suspended = dict.fromkeys(ill, message) if message else {}
    by_cluster: defaultdict[str, list[EngineInstanceRow]] = defaultdict(list)
    for row in fleet.instances.values():
        by_cluster[row.engine_cluster].append(row)
    for cluster, rows in by_cluster.items():
        if len(by_cluster) > 1 and (message := _shared_cause(rows, fleet, ill)):
            lost = f"if it is lost, 'gitopsctl engine-clusters drain {cluster}' lets its tenants leave"
            suspended |= {row.id: f"engine cluster {cluster}: {message}; {lost}" for row in rows if row.id in ill}
    return suspended


def _shared_cause(rows: Iterable[EngineInstanceRow], fleet: Fleet, ill: Collection[str]) -> str:
    """The message if too many of ``rows`` are ill at once; empty if not."""
    counted = [row for row in rows if _is_counted(row, fleet)]
    count = sum(row.id in ill for row in counted)
    is_shared = is_cause_shared(count, len(counted))
    return f"{count} of {len(counted)} instances are ill at once: the cause is shared" if is_shared else ""


def _is_counted(row: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether an instance counts when it is decided if the cause is shared."""
    return row.is_in_service and not (row.is_drained or is_cluster_drained(row, fleet))


def is_cluster_drained(row: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether an operator drains the engine cluster of an instance, for example because the cluster is lost."""
    return fleet.clusters[row.engine_cluster].state == "draining"
