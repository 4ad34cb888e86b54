"""What tenants' Applications show of their engine instance: how many are late, wait or fail, and how long it takes.

No I/O. :class:`Refreshes` and :class:`StandingQueue` remember what was seen between measurements.
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
"""For how long after its end a sync counts for the duration of syncs."""
TIMES, SLACK = 2, timedelta(minutes=1)
"""An Application is late when it should have been compared this many times, plus the slack."""
ERRORS_KEPT = timedelta(minutes=3)
"""For how long Argo CD does not show that it cannot read a repository (repo error grace period). Until the first
comparison after that, a new Application with a wrong path looks as if it had not been compared."""


class StandingQueue:
    """The fewest Applications that waited to be compared at any measurement since the last report.

    A burst is over before the next report, and does not count: the length of a standing queue is its minimum over a
    time (Nichols and Jacobson, Controlling Queue Delay, 2012).
    """

    def __init__(self) -> None:
        self._fewest: int | None = None

    def follow(self, signals: Signals) -> int:
        """Add a measurement; returns the length of the standing queue. A failed measurement does not count."""
        if not signals.api_error and not signals.is_inaccessible:
            waiting = signals.applications.waiting
            self._fewest = waiting if self._fewest is None else min(self._fewest, waiting)
        return self._fewest or 0

    def start_over(self) -> None:
        """Start a new minimum: the last one was reported."""
        self._fewest = None


class Refreshes:
    """Since when each Application has been asked to be compared.

    The times are the API server's, so that an instance that does not respond does not look healthy to the next agent.
    If somebody asked again meanwhile, the earlier time that this agent has seen counts.
    """

    def __init__(self) -> None:
        self._since: dict[ObjectKey, datetime] = {}

    def follow(self, asked: Mapping[ObjectKey, datetime | None], now: datetime) -> dict[ObjectKey, float]:
        """Update the requests; ``asked`` has the time of each, if known. Returns how many seconds each has waited."""
        self._since = {key: min(self._since.get(key, now), noted_at or now) for key, noted_at in asked.items()}
        return {key: (now - since).total_seconds() for key, since in self._since.items()}


def applications_signal(
    applications: Mapping[ObjectKey, LiveObject],
    refreshes: Refreshes,
    now: datetime,
    compares_within: timedelta | None,
) -> ApplicationsSignal:
    """The signal of these Applications.

    Args:
        applications: those of tenants.
        refreshes: earlier requests for comparisons; it is updated.
        now: when the Applications were read.
        compares_within: in which time Argo CD compares each Application anew; None: it does not by itself.
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
    """The Applications that were not compared in time. The arguments are those of :func:`applications_signal`."""
    judged = {key: each for key, each in applications.items() if _is_judged(each)}
    return {key for key, each in judged.items() if _is_late(each, now, compares_within)}


def p95_ms(durations: Iterable[timedelta]) -> int | None:
    """Milliseconds that 95 % of the durations do not exceed; None if there are none.

    Never negative, if clocks differ.
    """
    ordered = sorted(durations)
    if not ordered:
        return None
    nearest = ordered[math.ceil(P95 * len(ordered)) - 1]
    return max(0, round(nearest / timedelta(milliseconds=1)))


def _late_of_others(late: Counter[str], all_: Counter[str]) -> int:
    """How many would be late if the tenant with most late Applications did like the others. Counts are by tenant."""
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
    """Each comparison's tenant and age, without Applications that are no longer compared."""
    for each in applications:
        if (compared := each.reconciliation.reconciled_at) is not None and not each.reconciliation.is_refused:
            yield _tenant_of(each), now - compared


def _syncs(applications: Iterable[LiveObject], now: datetime) -> Iterator[tuple[str, timedelta]]:
    """Each recent sync's tenant and duration."""
    for each in applications:
        began, ended = time_of(each.operation.started_at), time_of(each.operation.finished_at)
        if began is not None and ended is not None and not each.operation.in_progress and now - ended <= SYNCED_OF_LATE:
            yield _tenant_of(each), ended - began


def _without_slowest_tenant(measured: Iterable[tuple[str, timedelta]]) -> list[timedelta]:
    """The durations without the slowest tenant's."""
    known = [*measured]
    slowest, _ = max(known, key=lambda each: each[1], default=("", timedelta(0)))
    return [took for tenant, took in known if tenant != slowest]


def _is_failing(live: LiveObject) -> bool:
    return live.operation.has_failed or _is_unanswered(live)


def _is_unanswered(live: LiveObject) -> bool:
    """Whether Argo CD has tried to compare it, and could not."""
    return bool(live.reconciliation.comparison_error) or live.reconciliation.is_refused


def _is_uncompared(live: LiveObject) -> bool:
    """Whether Argo CD has not compared it yet."""
    return live.reconciliation.reconciled_at is None and not live.reconciliation.is_refused


def _tenant_of(live: LiveObject) -> str:
    """The tenant by the name of the first AppProject. The Application may have a second one."""
    return text_of(dict_of(live.owned.get("spec")).get("project")).removesuffix(CLUSTER_SUFFIX)


def _is_late(live: LiveObject, now: datetime, compares_within: timedelta | None) -> bool:
    found = live.reconciliation
    if found.is_refused:
        return False
    if found.reconciled_at is None:
        return _is_older(found.created_at, now, ERRORS_KEPT + (compares_within or timedelta()) + SLACK)
    return compares_within is not None and _is_older(found.reconciled_at, now, TIMES * compares_within + SLACK)


def _average_share(some: Counter[str], all_: Counter[str]) -> float:
    """The average over tenants of each tenant's share of affected Applications."""
    return sum(some[tenant] / count for tenant, count in all_.items()) / len(all_) if all_ else 0.0


def _is_judged(live: LiveObject) -> bool:
    return live.deletion_started is None and live.annotations.get(SKIP) != "true"


def _is_older(at: datetime | None, now: datetime, age: timedelta) -> bool:
    return at is not None and now - at > age
