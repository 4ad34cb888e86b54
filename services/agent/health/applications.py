"""What tenants' Applications say of their engine instance: how many are late, wait or fail, and how long it takes.

Without I/O. :class:`Refreshes` and :class:`StandingQueue` remember what was seen from one measurement to the next.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from services.agent.health.signals import ApplicationsSignal, Signals
from services.agent.objects.live import LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.objects.reconciliation import REFRESH, SKIP, time_of
from services.common.argocd_names import CLUSTER_SUFFIX
from services.common.json_values import dict_of, text_of

P95 = 0.95
SYNCED_OF_LATE = timedelta(minutes=15)
"""How long a sync took counts for so long after its end."""
TIMES, SLACK = 2, timedelta(minutes=1)
"""An Application is late when it should have been compared twice, and this besides."""
ERRORS_KEPT = timedelta(minutes=3)
"""Argo CD keeps to itself for so long that it cannot read a repository (repo error grace period). A new Application
with a wrong path looks as if nothing had compared it until the first comparison after that."""


class StandingQueue:
    """The fewest Applications that waited to be compared at any measurement since the last report.

    A burst is over before the next report, and is none of them: what stands in a queue is its minimum over a time
    (Nichols and Jacobson, Controlling Queue Delay, 2012).
    """

    def __init__(self) -> None:
        self._fewest: int | None = None

    def follow(self, signals: Signals) -> int:
        """With one more measurement; returns how many stand in it. What could not be seen tells nothing."""
        if not signals.api_error and not signals.is_inaccessible:
            waiting = signals.applications.waiting
            self._fewest = waiting if self._fewest is None else min(self._fewest, waiting)
        return self._fewest or 0

    def start_over(self) -> None:
        """What it held was told."""
        self._fewest = None


class Refreshes:
    """Since when each Application has been asked to be compared.

    As the API server has noted it, so that an instance that takes up nothing does not seem well to the next agent; and
    as we have seen it, which is earlier where somebody has asked again meanwhile.
    """

    def __init__(self) -> None:
        self._since: dict[ObjectKey, datetime] = {}

    def follow(self, asked: Mapping[ObjectKey, datetime | None], now: datetime) -> dict[ObjectKey, float]:
        """These are asked now, since when if that was noted; returns for how many seconds each of them has been."""
        self._since = {key: min(self._since.get(key, now), noted_at or now) for key, noted_at in asked.items()}
        return {key: (now - since).total_seconds() for key, since in self._since.items()}


def applications_signal(
    applications: Mapping[ObjectKey, LiveObject],
    refreshes: Refreshes,
    now: datetime,
    compares_within: timedelta | None,
) -> ApplicationsSignal:
    """Of these Applications.

    Args:
        applications: those of tenants.
        refreshes: what was asked for before; it is brought up to date.
        now: when they were looked at.
        compares_within: in which time Argo CD compares each anew; None: it does not by itself.
    """
    ours = {key: each for key, each in applications.items() if _is_judged(each)}
    asked = {key: each.reconciliation.asked_at for key, each in ours.items() if REFRESH in each.annotations}
    never = {key for key, each in ours.items() if _is_uncompared(each)}
    lacking = Counter(_tenant_of(each) for each in ours.values() if each.reconciliation.lacks_repo_server)
    late = late_applications(ours, now, compares_within)
    compared = [*_comparisons(ours.values(), now)]
    by_tenant, late_by_tenant = Counter(map(_tenant_of, ours.values())), Counter(_tenant_of(ours[key]) for key in late)
    return ApplicationsSignal(
        total=len(ours),
        late=len(late),
        late_of_others=_late_of_others(late_by_tenant, by_tenant),
        late_share=_average_share(late_by_tenant, by_tenant),
        tenants=len(by_tenant),
        late_tenants=len(late_by_tenant),
        waiting=len(asked.keys() | never),
        waits_seconds=_longest_of_tenants(ours, refreshes.follow(asked, now)),
        lacking_repo_server=lacking.total(),
        lacking_share=_average_share(lacking, by_tenant),
        lacking_tenants=len(lacking),
        failed_syncs=sum(each.operation.has_failed for each in ours.values()),
        comparison_errors=sum(map(_is_unanswered, ours.values())),
        failing_tenants=len({_tenant_of(each) for each in ours.values() if _is_failing(each)}),
        comparison_p95_ms=p95_ms(_without_slowest_tenant(compared) or [age for _, age in compared]),
        sync_p95_ms=p95_ms(_without_slowest_tenant(_syncs(ours.values(), now))),
    )


def late_applications(
    applications: Mapping[ObjectKey, LiveObject], now: datetime, compares_within: timedelta | None
) -> set[ObjectKey]:
    """Those that were not compared in time; the arguments are those of :func:`applications_signal`."""
    judged = {key: each for key, each in applications.items() if _is_judged(each)}
    return {key for key, each in judged.items() if _is_late(each, now, compares_within)}


def p95_ms(durations: Iterable[timedelta]) -> int | None:
    """Milliseconds that 95 in 100 do not exceed; None if there are none. Clocks that differ make none negative."""
    ordered = sorted(durations)
    if not ordered:
        return None
    nearest = ordered[math.ceil(P95 * len(ordered)) - 1]
    return max(0, round(nearest / timedelta(milliseconds=1)))


def _late_of_others(late: Counter[str], all_: Counter[str]) -> int:
    """Of Applications by tenant."""
    worst = max(late, key=late.__getitem__, default="")
    if len(all_) == 1 or not worst:
        return late.total()
    return round((late.total() - late[worst]) / (all_.total() - all_[worst]) * all_.total())


def _longest_of_tenants(ours: Mapping[ObjectKey, LiveObject], waits: Mapping[ObjectKey, float]) -> tuple[float, ...]:
    longest: dict[str, float] = {}
    for key, waited in waits.items():
        tenant = _tenant_of(ours[key])
        longest[tenant] = max(longest.get(tenant, 0.0), waited)
    return tuple(longest.values())


def _comparisons(applications: Iterable[LiveObject], now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Whose were compared, and how long ago each was; without those that are compared no more."""
    for each in applications:
        if (compared := each.reconciliation.reconciled_at) is not None and not each.reconciliation.is_refused:
            yield _tenant_of(each), now - compared


def _syncs(applications: Iterable[LiveObject], now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Whose have ended of late, and how long each took."""
    for each in applications:
        began, ended = time_of(each.operation.started_at), time_of(each.operation.finished_at)
        if began is not None and ended is not None and not each.operation.in_progress and now - ended <= SYNCED_OF_LATE:
            yield _tenant_of(each), ended - began


def _without_slowest_tenant(measured: Iterable[tuple[str, timedelta]]) -> list[timedelta]:
    """Of all tenants but the one with the longest."""
    known = [*measured]
    slowest, _ = max(known, key=lambda each: each[1], default=("", timedelta(0)))
    return [took for tenant, took in known if tenant != slowest]


def _is_failing(live: LiveObject) -> bool:
    return live.operation.has_failed or _is_unanswered(live)


def _is_unanswered(live: LiveObject) -> bool:
    """Whether Argo CD has looked at it, and could not compare it."""
    return bool(live.reconciliation.comparison_error) or live.reconciliation.is_refused


def _is_uncompared(live: LiveObject) -> bool:
    """Whether Argo CD has not come to it yet."""
    return live.reconciliation.reconciled_at is None and not live.reconciliation.is_refused


def _tenant_of(live: LiveObject) -> str:
    """By the name of its first AppProject; it may have a second one."""
    return text_of(dict_of(live.owned.get("spec")).get("project")).removesuffix(CLUSTER_SUFFIX)


def _is_late(live: LiveObject, now: datetime, compares_within: timedelta | None) -> bool:
    found = live.reconciliation
    if found.is_refused:
        return False
    if found.reconciled_at is None:
        return _is_older(found.created_at, now, ERRORS_KEPT + (compares_within or timedelta()) + SLACK)
    return compares_within is not None and _is_older(found.reconciled_at, now, TIMES * compares_within + SLACK)


def _average_share(some: Counter[str], all_: Counter[str]) -> float:
    """Of Applications by tenant: each tenant's share, and of these the average."""
    return sum(some[tenant] / count for tenant, count in all_.items()) / len(all_) if all_ else 0.0


def _is_judged(live: LiveObject) -> bool:
    return live.deletion_started is None and live.annotations.get(SKIP) != "true"


def _is_older(at: datetime | None, now: datetime, age: timedelta) -> bool:
    return at is not None and now - at > age
