"""What one measurement says of an instance, and how many of them are believed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.agent.health.judgement import ENOUGH, MEASUREMENTS, WELL, HealthJudge, Judgement, judged
from services.agent.health.signals import (
    ApplicationsSignal,
    CertificateSignal,
    HeartbeatSignal,
    Signals,
    Workload,
)
from services.common.messages import Health

DEADLINE = 60.0
AT = datetime(2026, 1, 1, tzinfo=UTC)
CONTROLLER, REPO_SERVER, REDIS = "argocd-application-controller", "argocd-repo-server", "argocd-redis"
UP = Health.HEALTHY, ""


def heartbeat(silent: float, **more: Any) -> Signals:
    return Signals(heartbeat=HeartbeatSignal(silent, AT, **more))


def workload(name: str, ready: int, wanted: int = 2, restarting: int = 0) -> Signals:
    return Signals(workloads=(Workload(name, wanted, ready, restarting),))


def applications(**counted: Any) -> Signals:
    return Signals(applications=ApplicationsSignal(**counted))


def late(share: float, total: int = 100, tenants: int = 10, late_tenants: int = 3) -> Signals:
    counted = round(share * total)
    return applications(total=total, late=counted, late_share=share, tenants=tenants, late_tenants=late_tenants)


def certificate(days_left: float, lifetime_days: float = 365) -> Signals:
    left = timedelta(days=days_left)
    return Signals(certificates=(CertificateSignal("repo server", AT + left, left, timedelta(days=lifetime_days)),))


EXPIRING, EXPIRED = (Health.DEGRADED, "CertificateExpiring"), (Health.DEGRADED, "CertificateExpired")
CASES = [
    pytest.param(Signals(), UP, id="nothing that speaks against it"),
    pytest.param(Signals(api_error="refused"), (Health.DOWN, "ApiFailing"), id="no answer"),
    pytest.param(Signals(api_seconds=5.1), (Health.DEGRADED, "ApiSlow"), id="a late answer"),
    pytest.param(Signals(api_seconds=5.0), UP, id="an answer in time"),
    pytest.param(Signals(is_inaccessible=True), (Health.DOWN, "Closed"), id="its namespace is closed"),
    pytest.param(Signals(refusal="lacks fixes"), (Health.DOWN, "NotAccepted"), id="refused"),
    pytest.param(workload(CONTROLLER, 0), (Health.DOWN, "ControllerNotReady"), id="no controller"),
    pytest.param(workload(CONTROLLER, 0, 0), (Health.DOWN, "ControllerNotReady"), id="a controller scaled to none"),
    pytest.param(workload(CONTROLLER, 1), (Health.DEGRADED, "ControllerNotReady"), id="half of the controllers"),
    pytest.param(workload(REPO_SERVER, 0), (Health.DOWN, "RepoServerNotReady"), id="no repo server"),
    pytest.param(workload(REPO_SERVER, 1), (Health.DEGRADED, "RepoServerNotReady"), id="half of the repo servers"),
    pytest.param(workload(REDIS, 0), (Health.DEGRADED, "RedisNotReady"), id="no Redis"),
    pytest.param(workload(CONTROLLER, 2, restarting=1), (Health.DEGRADED, "Restarting"), id="one does not stay up"),
    pytest.param(workload(CONTROLLER, 2), UP, id="all are ready"),
    pytest.param(heartbeat(60), UP, id="a heartbeat within its deadline"),
    pytest.param(heartbeat(61), (Health.DEGRADED, "HeartbeatLate"), id="a heartbeat beyond it"),
    pytest.param(heartbeat(240), (Health.DEGRADED, "HeartbeatLate"), id="what Argo CD may keep to itself"),
    pytest.param(heartbeat(241), (Health.DOWN, "HeartbeatLost"), id="a heartbeat beyond four of them"),
    pytest.param(heartbeat(0, error="no such path"), (Health.DEGRADED, "HeartbeatFailing"), id="no such path"),
    pytest.param(
        heartbeat(0, error="code = Unavailable", lacks_answer=True),
        (Health.DOWN, "RepoServerFailing"),
        id="a heartbeat without a repo server",
    ),
    pytest.param(
        applications(total=1, tenants=1, waits_seconds=(301.0,)),
        (Health.DEGRADED, "RefreshNotTakenUp"),
        id="a refresh of the only tenant that nobody takes up",
    ),
    pytest.param(
        applications(total=9, tenants=9, waits_seconds=(301.0, 302.0, 303.0, 10.0)),
        (Health.DEGRADED, "RefreshNotTakenUp"),
        id="refreshes of three tenants that nobody takes up",
    ),
    pytest.param(
        applications(total=9, tenants=9, waits_seconds=(4000.0, 301.0, 300.0)), UP, id="refreshes of two tenants alone"
    ),
    pytest.param(late(0.25), UP, id="a quarter is late"),
    pytest.param(late(0.26), (Health.DEGRADED, "ReconciliationLate"), id="more is late"),
    pytest.param(late(0.91), (Health.DOWN, "ReconciliationLate"), id="nearly all are late"),
    pytest.param(late(1, total=4), UP, id="too few to tell a share"),
    pytest.param(late(0.91, late_tenants=2), UP, id="late ones of two tenants alone"),
    pytest.param(late(1, tenants=2, late_tenants=1), UP, id="late ones of one of two tenants"),
    pytest.param(
        late(1, tenants=2, late_tenants=2), (Health.DOWN, "ReconciliationLate"), id="late ones of both tenants"
    ),
    pytest.param(
        late(1, tenants=1, late_tenants=1), (Health.DOWN, "ReconciliationLate"), id="late ones of the only tenant"
    ),
    pytest.param(
        applications(total=100, lacking_repo_server=21, lacking_share=0.21, lacking_tenants=3),
        (Health.DEGRADED, "RepoServerFailing"),
        id="some tenants' have no answer of the repo server",
    ),
    pytest.param(
        applications(total=100, lacking_repo_server=91, lacking_share=0.91, lacking_tenants=3),
        (Health.DOWN, "RepoServerFailing"),
        id="nearly nobody has",
    ),
    pytest.param(
        applications(total=100, lacking_repo_server=91, lacking_share=0.91, lacking_tenants=2),
        UP,
        id="what two tenants say",
    ),
    pytest.param(
        applications(total=100, lacking_repo_server=91, lacking_share=0.1, lacking_tenants=3),
        UP,
        id="three tenants of many",
    ),
    pytest.param(Signals(version="3.2.11", wanted_version="v3.2.11"), UP, id="the version that was ordered"),
    pytest.param(
        Signals(version="3.1.16", wanted_version="3.2.11"), (Health.DEGRADED, "OtherVersion"), id="another version"
    ),
    pytest.param(Signals(version="", wanted_version="3.2.11"), UP, id="a version that is not to be seen"),
    pytest.param(Signals(version="3.1.16"), UP, id="a version that nobody has ordered"),
    pytest.param(certificate(14), UP, id="two weeks"),
    pytest.param(certificate(13), EXPIRING, id="less than two weeks"),
    pytest.param(certificate(9, 90), UP, id="a tenth of a shorter lifetime"),
    pytest.param(certificate(8, 90), EXPIRING, id="less than a tenth of it"),
    pytest.param(certificate(0.5, 1), UP, id="one that is renewed each day"),
    pytest.param(certificate(0), EXPIRED, id="no time left"),
    pytest.param(certificate(-3), EXPIRED, id="a certificate that has expired"),
]


@pytest.mark.parametrize(("signals", "expected"), CASES)
def test_instance_when_measured_then_its_worst_symptom_is_told(signals: Signals, expected: tuple[Health, str]) -> None:
    found = judged(signals, DEADLINE)
    assert (found.health, found.reason) == expected
    assert bool(found.message) == (found.health is not Health.HEALTHY)


def test_symptoms_when_they_are_equally_bad_then_the_one_that_is_closer_to_the_cause_is_told() -> None:
    signals = Signals(workloads=(Workload(CONTROLLER, 1, 0),), heartbeat=HeartbeatSignal(300, AT))
    assert judged(signals, DEADLINE).reason == "ControllerNotReady"


def test_certificate_when_something_else_is_wrong_too_then_that_is_told_which_remedies_help() -> None:
    expired = certificate(-1).certificates
    signals = replace(late(0.5), certificates=expired)
    assert judged(signals, DEADLINE).reason == "ReconciliationLate"


ILL, DOWN = Judgement(Health.DEGRADED, "ApiSlow", "…"), Judgement(Health.DOWN, "ApiFailing", "…")


def course(*measured: Judgement) -> list[Health | None]:
    """What is believed after each measurement."""
    judge = HealthJudge.new()
    found = [judge.judge(each) for each in measured]
    return [each and each.health for each in found]


def test_instance_when_there_are_too_few_measurements_then_nothing_is_said_of_it() -> None:
    assert course(*[WELL] * ENOUGH) == [None] * (ENOUGH - 1) + [Health.HEALTHY]


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([DOWN, DOWN], Health.HEALTHY),
        ([DOWN, DOWN, DOWN], Health.DOWN),
        ([DOWN, WELL, DOWN, WELL, DOWN], Health.DOWN),
        ([DOWN, WELL, WELL, DOWN, WELL, WELL, DOWN], Health.HEALTHY),
        ([DOWN, ILL, DOWN], Health.DEGRADED),
        ([ILL, ILL, ILL, DOWN, DOWN, DOWN], Health.DOWN),
        ([DOWN, DOWN, DOWN, WELL, WELL], Health.DOWN),
        ([DOWN, DOWN, DOWN, WELL, WELL, WELL], Health.HEALTHY),
        ([DOWN, DOWN, DOWN, WELL, ILL, WELL], Health.DEGRADED),
        ([DOWN, DOWN, DOWN, WELL, WELL, DOWN, WELL, WELL], Health.DOWN),
    ],
)
def test_instance_when_some_of_the_last_measurements_are_bad_then_three_of_five_are_believed(
    measured: list[Judgement], expected: Health
) -> None:
    assert (ENOUGH, MEASUREMENTS) == (3, 5)
    assert course(*[WELL] * MEASUREMENTS, *measured)[-1] == expected


def test_instance_when_it_is_well_and_ill_by_turns_then_what_is_said_does_not_change_with_each_measurement() -> None:
    believed = course(*[WELL] * MEASUREMENTS, *[DOWN, WELL] * 20)[MEASUREMENTS + MEASUREMENTS :]
    assert set(believed) == {Health.DOWN}
