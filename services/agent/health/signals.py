"""What is measured of an engine instance, as values; what was not to be seen is left out, and speaks for nothing. Pure.

An Argo CD that runs as processes has neither pods nor Deployments that anything looks after: of its workloads there is
no signal then.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.agent.objects.live import LiveObject
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.objects.reconciliation import REFRESH, SKIP, time_of
from services.common.argocd_names import CLUSTER_SUFFIX
from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes import Manifest

CONTROLLER, REPO_SERVER, REDIS = "argocd-application-controller", "argocd-repo-server", "argocd-redis"
NAME_LABEL = "app.kubernetes.io/name"
P95 = 0.95
SYNCED_OF_LATE = timedelta(minutes=15)
TIMES, SLACK = 2, timedelta(minutes=1)
"""An Application is late when it should have been compared twice, and this besides."""
ERRORS_KEPT = timedelta(minutes=3)
"""Argo CD keeps to itself for so long that it cannot read a repository (repo error grace period). A new Application
with a wrong path looks as if nothing had compared it until the first comparison after that."""
OFTEN, OF_LATE = 3, timedelta(minutes=10)
"""A container that was restarted so many times, the last time so recently, does not stay up."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods of one kind."""

    name: str
    wanted: int
    ready: int
    restarting: int = 0
    """Those that do not stay up."""


@dataclass(frozen=True, slots=True)
class HeartbeatSignal:
    """The heartbeat Application."""

    silent_seconds: float
    """Since it was asked for the comparison that has not come yet; 0 if all have."""
    reconciled_at: datetime | None
    error: str = ""
    """Why it could not be compared; empty if it was."""
    lacks_answer: bool = False
    """Of the repo server, to this comparison."""


@dataclass(frozen=True, slots=True)
class CertificateSignal:
    """A certificate on which the instance depends."""

    name: str
    """Whose it is."""
    expires_at: datetime
    remaining: timedelta
    """Until then; negative: since then."""
    lifetime: timedelta
    """From its beginning to its end."""


@dataclass(frozen=True, slots=True)
class ApplicationsSignal:
    """Tenants' Applications, but those that Argo CD is to leave alone."""

    total: int = 0
    late: int = 0
    """Compared longer ago than Argo CD compares by itself, or never though they are not new."""
    late_of_others: int = 0
    """As many of the total as would be if the tenant with most of them, whose cluster or git server may not answer, did
    like the others; all of them, if there are no others."""
    late_share: float = 0.0
    """Of the Applications of each tenant: the average of all tenants, so that none of them weighs more than another."""
    tenants: int = 0
    """Whose they are."""
    late_tenants: int = 0
    """Those of which an Application is late."""
    waiting: int = 0
    """Never compared yet, or asked to be compared again."""
    waits_seconds: tuple[float, ...] = ()
    """For comparisons that were asked for: the longest of each tenant that waits for one."""
    lacking_repo_server: int = 0
    """Those that say that there is no repo server."""
    lacking_share: float = 0.0
    """Of the Applications of each tenant, likewise the average of all tenants."""
    lacking_tenants: int = 0
    """Those of which an Application says so."""
    failed_syncs: int = 0
    """Those whose last sync has failed."""
    comparison_errors: int = 0
    """Those that could not be compared, or that Argo CD refuses to compare."""
    failing_tenants: int = 0
    """Of whose at least one could not be compared, or has failed in its last sync."""
    comparison_p95_ms: int | None = None
    """Since they were compared last; None: none ever was. Those of the tenant with the longest, whose cluster may not
    answer, are left out if there are others."""
    sync_p95_ms: int | None = None
    """Of syncs that have ended within :data:`SYNCED_OF_LATE`, but for those of the tenant with the longest, which hooks
    of its own may prolong; None: no other has."""


@dataclass(frozen=True, slots=True)
class Signals:
    """One measurement of an instance."""

    api_error: str = ""
    api_seconds: float = 0.0
    """How long the API server took to answer."""
    is_closed: bool = False
    """The agent may not look at it."""
    refusal: str = ""
    """Why nothing new is deployed by it."""
    workloads: tuple[Workload, ...] = ()
    heartbeat: HeartbeatSignal | None = None
    """None: there is no such Application, or it could not be read."""
    applications: ApplicationsSignal = field(default_factory=ApplicationsSignal)
    version: str = ""
    """Of what it runs; empty if that is not to be seen."""
    wanted_version: str = ""
    """With which it was ordered; empty: somebody else looks after that."""
    certificates: tuple[CertificateSignal, ...] = ()


def workloads_of(owners: Mapping[str, Manifest | None], pods: Iterable[Manifest], now: datetime) -> Iterator[Workload]:
    """The workloads that are to be seen.

    Args:
        owners: the Deployment or StatefulSet by its name; None: there is none.
        pods: Argo CD's, of the engine namespace.
        now: when they were read.
    """
    by_name: dict[str, list[Manifest]] = {CONTROLLER: [], REPO_SERVER: [], REDIS: []}
    for pod in pods:
        by_name.get(dict_of(pod["metadata"].get("labels")).get(NAME_LABEL, ""), []).append(pod)
    for name, of_name in by_name.items():
        restarting = sum(_keeps_restarting(pod, now) for pod in of_name)
        owner = owners.get(name)
        status = dict_of((owner or {}).get("status"))
        if owner is not None and "observedGeneration" in status:  # else nobody looks after it
            wanted = dict_of(owner.get("spec")).get("replicas", 1)
            yield Workload(name, int(wanted), int(status.get("readyReplicas", 0)), restarting)
        elif of_name:
            yield Workload(name, len(of_name), sum(map(_is_ready, of_name)), restarting)


def _is_ready(pod: Manifest) -> bool:
    conditions = dicts_of(dict_of(pod.get("status")).get("conditions"))
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _keeps_restarting(pod: Manifest, now: datetime) -> bool:
    return any(
        int(each.get("restartCount", 0)) >= OFTEN and _ended_of_late(each, now)
        for each in dicts_of(dict_of(pod.get("status")).get("containerStatuses"))
    )


def _ended_of_late(container: Manifest, now: datetime) -> bool:
    ended = text_of(dict_of(dict_of(container.get("lastState")).get("terminated")).get("finishedAt"))
    return bool(ended) and now - datetime.fromisoformat(ended) <= OF_LATE


class StandingQueue:
    """The fewest Applications that waited to be compared at any measurement since the last report.

    A burst is over before the next report, and is none of them: what stands in a queue is its minimum over a time
    (Nichols and Jacobson, Controlling Queue Delay, 2012).
    """

    def __init__(self) -> None:
        self._fewest: int | None = None

    def follow(self, signals: Signals) -> int:
        """With one more measurement; returns how many stand in it. What could not be seen tells nothing."""
        if not signals.api_error and not signals.is_closed:
            waiting = signals.applications.waiting
            self._fewest = waiting if self._fewest is None else min(self._fewest, waiting)
        return self._fewest or 0

    def start_over(self) -> None:
        """What it held was told."""
        self._fewest = None


class Refreshes:
    """Since when each Application has been asked to be compared, as far as we have seen it."""

    def __init__(self) -> None:
        self._since: dict[ObjectKey, datetime] = {}

    def follow(self, asked: Iterable[ObjectKey], now: datetime) -> dict[ObjectKey, float]:
        """These are asked now; returns for how many seconds each of them has been."""
        self._since = {key: self._since.get(key, now) for key in asked}
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
    asked = {key for key, each in ours.items() if REFRESH in each.annotations}
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
        waiting=len(asked | never),
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


def late_applications(
    applications: Mapping[ObjectKey, LiveObject], now: datetime, compares_within: timedelta | None
) -> set[ObjectKey]:
    """Those that were not compared in time; the arguments are those of :func:`applications_signal`."""
    judged = {key: each for key, each in applications.items() if _is_judged(each)}
    return {key for key, each in judged.items() if _is_late(each, now, compares_within)}


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
