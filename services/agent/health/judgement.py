"""Judges an engine instance by measurements. Pure.

A measurement shows symptoms, each with a severity. One measurement says little: the health becomes worse when
:data:`ENOUGH` of the last :data:`MEASUREMENTS` are at least as bad, and better when the last :data:`ENOUGH` all are
better.
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
"""From this response time on the API server counts as slow."""
LOST = 4
"""A heartbeat is lost after this many of its deadlines. Argo CD does not show for three minutes that it cannot read a
repository (repo error grace period), so the instance must not be considered dead before."""
REFRESH_SECONDS = 300.0
"""How long a requested comparison may take."""
FEWEST = 5
"""Fewest Applications of which a share counts."""
LATE, LACKING = (0.25, 0.9), (0.2, 0.9)
"""The shares of Applications beyond which an instance is degraded, and down: not compared in time; without a repo
server."""
TENANTS = 3
"""At least so many tenants must be affected. With fewer, their own commits may be the cause."""
RENEWED_BEFORE, LAST_PART = timedelta(days=14), 10
"""How long before its expiry a certificate should have been renewed, or in which last part of its lifetime if that is
shorter. Whatever renews certificates by itself does so earlier."""
SEVERITY = {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.DOWN: 2}
API_FAILING, INACCESSIBLE = "ApiFailing", "Closed"
EXPIRED, EXPIRING = BY_HAND
OUT_OF_REACH = frozenset({API_FAILING, INACCESSIBLE})
"""Reasons for which nothing else can be measured or done."""
NOT_READY = {
    CONTROLLER: "ControllerNotReady",
    REPO_SERVER: "RepoServerNotReady",
    REDIS: "RedisNotReady",
}


class Judgement(NamedTuple):
    """The health of an instance, and its reason."""

    health: Health
    reason: str = ""
    """One word; empty if the instance is healthy."""
    message: str = ""
    """A text for operators."""

    @property
    def severity(self) -> int:
        """A greater number is worse."""
        return SEVERITY[self.health]

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the instance cannot be measured at all."""
        return self.reason in OUT_OF_REACH


WELL = Judgement(Health.HEALTHY)


@dataclass(slots=True)
class HealthJudge:
    """Remembers the last measurements of one instance."""

    _recent: deque[Judgement]
    _current: Judgement | None = None

    @classmethod
    def new(cls) -> HealthJudge:
        """A judge without measurements."""
        return cls(deque(maxlen=MEASUREMENTS))

    def judge(self, measured: Judgement) -> Judgement | None:
        """The health after one more measurement; None while there are too few measurements."""
        self._recent.append(measured)
        if len(self._recent) < ENOUGH:
            return None
        severity = self._severity()
        self._current = next((each for each in reversed(self._recent) if each.severity == severity), self._current)
        return self._current

    def _severity(self) -> int:
        """The current severity, unless enough measurements are worse, or all of the latest are better."""
        bad = sorted((each.severity for each in self._recent), reverse=True)[ENOUGH - 1]
        good = max(each.severity for each in [*self._recent][-ENOUGH:])
        return bad if self._current is None else max(bad, min(good, self._current.severity))


def judged(signals: Signals, heartbeat_deadline: float) -> Judgement:
    """The health by one measurement: its worst symptom, and of equal ones the first.

    ``heartbeat_deadline``: seconds.
    """
    return max(symptoms(signals, heartbeat_deadline), key=lambda each: each.severity, default=WELL)


def is_too_early(judgement: Judgement, signals: Signals) -> bool:
    """Whether the instance must not be reported healthy yet, because its heartbeat was never compared.

    Tenants are placed on a new instance as soon as it is reported healthy. An instance in service is reported in any
    case: otherwise its agent would count as silent.
    """
    is_compared = signals.heartbeat is not None and signals.heartbeat.reconciled_at is not None
    is_awaited = signals.has_heartbeat and not (is_compared or signals.is_in_service)
    return is_awaited and is_working(judgement.health, judgement.reason)


def symptoms(signals: Signals, heartbeat_deadline: float) -> Iterator[Judgement]:
    """The symptoms. A symptom that says more about the cause comes first."""
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
