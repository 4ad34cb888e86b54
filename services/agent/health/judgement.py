"""Judges an engine instance by what was measured of it. Pure.

One measurement shows symptoms, each with how bad it is. One alone says little: an instance becomes worse when
:data:`ENOUGH` of the last :data:`MEASUREMENTS` are at least as bad, and better when the last :data:`ENOUGH` all are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from services.agent.health.signals import ApplicationsSignal, CertificateSignal, Signals, Workload
from services.common.argocd_names import CONTROLLER, REDIS, REPO_SERVER
from services.common.argocd_versions import parsed_version
from services.common.messages.observation import BY_HAND, Health, is_working

ENOUGH, MEASUREMENTS = 3, 5
SLOW_SECONDS = 5.0
"""For the API server to answer."""
LOST = 4
"""Times its deadline: a heartbeat that is so late is lost. Argo CD keeps to itself for three minutes that it cannot
read a repository (repo error grace period), so it must not be taken for dead before."""
REFRESH_SECONDS = 300.0
"""For a comparison that somebody has asked for."""
FEWEST = 5
"""Applications: of fewer no share is told."""
LATE, LACKING = (0.25, 0.9), (0.2, 0.9)
"""Beyond which share of the Applications an instance is degraded, and down: not compared in time; without a repo
server."""
TENANTS = 3
"""So many are affected at least: with fewer it may be what these have committed."""
RENEWED_BEFORE, LAST_PART = timedelta(days=14), 10
"""A certificate should have been renewed so long before it expires, or before the last tenth of its lifetime if that is
shorter: whatever renews certificates by itself does so earlier."""
SEVERITY = {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.DOWN: 2}
API_FAILING, INACCESSIBLE = "ApiFailing", "Closed"
EXPIRED, EXPIRING = BY_HAND
OUT_OF_REACH = frozenset({API_FAILING, INACCESSIBLE})
"""Reasons for which nothing else can be measured, or done."""
NOT_READY = {
    CONTROLLER: "ControllerNotReady",
    REPO_SERVER: "RepoServerNotReady",
    REDIS: "RedisNotReady",
}


class Judgement(NamedTuple):
    """How an instance is, and why."""

    health: Health
    reason: str = ""
    """A word; empty if it is well."""
    message: str = ""
    """For operators."""

    @property
    def severity(self) -> int:
        """More is worse."""
        return SEVERITY[self.health]

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the instance cannot even be looked at."""
        return self.reason in OUT_OF_REACH


WELL = Judgement(Health.HEALTHY)


@dataclass(slots=True)
class HealthJudge:
    """Remembers the last measurements of one instance."""

    _recent: deque[Judgement]
    _current: Judgement | None = None

    @classmethod
    def new(cls) -> HealthJudge:
        """One that has seen nothing yet."""
        return cls(deque(maxlen=MEASUREMENTS))

    def judge(self, measured: Judgement) -> Judgement | None:
        """How the instance is after one more measurement; None as long as there were too few."""
        self._recent.append(measured)
        if len(self._recent) < ENOUGH:
            return None
        severity = self._severity()
        self._current = next((each for each in reversed(self._recent) if each.severity == severity), self._current)
        return self._current

    def _severity(self) -> int:
        """As it was, unless enough are worse, or all of the latest are better."""
        bad = sorted((each.severity for each in self._recent), reverse=True)[ENOUGH - 1]
        good = max(each.severity for each in [*self._recent][-ENOUGH:])
        return bad if self._current is None else max(bad, min(good, self._current.severity))


def judged(signals: Signals, heartbeat_deadline: float) -> Judgement:
    """What one measurement says: its worst symptom, the first of these. ``heartbeat_deadline``: seconds."""
    return max(symptoms(signals, heartbeat_deadline), key=lambda each: each.severity, default=WELL)


def is_too_early(judgement: Judgement, signals: Signals) -> bool:
    """Whether an instance may not be said to work yet: no comparison of its heartbeat is to be seen. Soon that is late.

    Tenants are placed on an instance that was just added as soon as it is told to work. One that is in service already
    goes on to be told of: it would be taken for one whose agent is silent.
    """
    is_compared = signals.heartbeat is not None and signals.heartbeat.reconciled_at is not None
    is_awaited = signals.has_heartbeat and not (is_compared or signals.is_in_service)
    return is_awaited and is_working(judgement.health, judgement.reason)


def symptoms(signals: Signals, heartbeat_deadline: float) -> Iterator[Judgement]:
    """What is wrong; what says more about the cause comes first."""
    yield from _of_access(signals)
    for workload in signals.workloads:
        yield from _of_workload(workload)
    yield from _of_heartbeat(signals, heartbeat_deadline)
    yield from _of_applications(signals.applications)
    yield from _of_version(signals.version, signals.wanted_version)
    for certificate in signals.certificates:
        yield from _of_certificate(certificate)
    if signals.refusal:
        yield Judgement(Health.DOWN, "NotAccepted", f"nothing new is deployed by it: {signals.refusal}")


def _of_access(signals: Signals) -> Iterator[Judgement]:
    if signals.api_error:
        yield Judgement(Health.DOWN, API_FAILING, f"the API server does not answer: {signals.api_error}")
    elif signals.is_inaccessible:
        yield Judgement(Health.DOWN, INACCESSIBLE, "its namespace is not there, or its agent may not look at it")
    elif signals.api_seconds > SLOW_SECONDS:
        yield Judgement(Health.DEGRADED, "ApiSlow", f"the API server took {signals.api_seconds:.1f} s to answer")


def _of_workload(workload: Workload) -> Iterator[Judgement]:
    message = f"{workload.ready} of {workload.wanted} pods of {workload.name} are ready"
    if workload.ready == 0:
        yield Judgement(Health.DEGRADED if workload.name == REDIS else Health.DOWN, NOT_READY[workload.name], message)
    elif workload.ready < workload.wanted:
        yield Judgement(Health.DEGRADED, NOT_READY[workload.name], message)
    if workload.restarting:
        message = f"{workload.restarting} pods of {workload.name} are restarted again and again"
        yield Judgement(Health.DEGRADED, "Restarting", message)


def _of_heartbeat(signals: Signals, deadline: float) -> Iterator[Judgement]:
    beat = signals.heartbeat
    if beat is None:
        return
    message = f"the heartbeat Application has not been compared for {beat.silent_seconds:.0f} s"
    if beat.silent_seconds > LOST * deadline:
        yield Judgement(Health.DOWN, "HeartbeatLost", message)
    elif beat.silent_seconds > deadline:
        yield Judgement(Health.DEGRADED, "HeartbeatLate", message)
    elif beat.lacks_answer:
        yield Judgement(Health.DOWN, "RepoServerFailing", f"the repo server does not answer: {beat.error}")
    elif beat.error:
        yield Judgement(Health.DEGRADED, "HeartbeatFailing", f"the heartbeat Application: {beat.error}")


def _of_applications(found: ApplicationsSignal) -> Iterator[Judgement]:
    # Where there are fewer tenants all of them are asked for: a controller that hangs is to be found there, too.
    fewest = min(TENANTS, max(found.tenants, 1))
    overdue = [waited for waited in found.waits_seconds if waited > REFRESH_SECONDS]
    if len(overdue) >= fewest:
        message = f"Applications of {len(overdue)} of {found.tenants} tenants have waited to be compared"
        yield Judgement(Health.DEGRADED, "RefreshNotTakenUp", f"{message}, up to {max(overdue):.0f} s")
    if found.total < FEWEST:
        return
    if found.lacking_tenants >= TENANTS and (level := _level(found.lacking_share, LACKING)):
        message = f"the repo server does not answer: {found.lacking_repo_server} of {found.total} Applications say so"
        yield Judgement(level, "RepoServerFailing", message)
    if found.late_tenants >= fewest and (level := _level(found.late_share, LATE)):
        message = (
            f"{found.late} of {found.total} Applications were not compared in time, "
            f"of {found.late_tenants} of {found.tenants} tenants"
        )
        yield Judgement(level, "ReconciliationLate", message)


def _of_version(version: str, wanted: str) -> Iterator[Judgement]:
    found, ordered = parsed_version(version), parsed_version(wanted)
    if found is not None and ordered is not None and found != ordered:
        yield Judgement(Health.DEGRADED, "OtherVersion", f"it runs Argo CD {found}, and was ordered with {ordered}")


def _of_certificate(certificate: CertificateSignal) -> Iterator[Judgement]:
    at = f"{certificate.expires_at:%Y-%m-%d %H:%M} UTC"
    if certificate.remaining <= timedelta(0):
        message = f"the certificate of its {certificate.name} has expired at {at}: renew it"
        yield Judgement(Health.DEGRADED, EXPIRED, message)
    elif certificate.remaining < min(RENEWED_BEFORE, certificate.lifetime / LAST_PART):
        message = f"the certificate of its {certificate.name} expires at {at}: renew it"
        yield Judgement(Health.DEGRADED, EXPIRING, message)


def _level(share: float, bounds: tuple[float, float]) -> Health | None:
    some, most = bounds
    if share > most:
        return Health.DOWN
    return Health.DEGRADED if share > some else None
