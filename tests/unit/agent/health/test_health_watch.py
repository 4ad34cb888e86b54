"""One instance is measured again and again, and what becomes of it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from services.agent.health.certificates import LOOK_SECONDS, OF_API_SERVER
from services.agent.health.heartbeat import ASKED_AT, COMPARED_BEFORE, NAME
from services.agent.health.judgement import LOST
from services.agent.objects.reconciliation import REFRESH
from services.common.argocd_names import REDIS
from services.common.errors import GitOpsError, Retry
from services.common.kubernetes import Rejected
from services.common.messages import EngineHealth
from services.common.times import rfc3339
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import bench
from tests.unit.agent.health.test_certificates import DER, certificate
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import EPOCH, FakeClock

EVERY = 10.0
REPORT_SECONDS = 60.0
DEADLINE = 60.0
LOST_AFTER = LOST * DEADLINE
INSTANCE = "argocd"
SETTINGS = {
    "health_interval_seconds": EVERY,
    "heartbeat_repository": "https://git.example.com/heartbeat.git",
    "heartbeat_deadline_seconds": DEADLINE,
}


class NextClock(FakeClock):
    """Of a process that begins later, so its monotonic clock does; its wall clock may be another's, too."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self._began_at = now

    def now(self) -> datetime:
        return self._began_at + timedelta(seconds=self.seconds)


class Engine:
    """An instance, and its application controller as far as it minds the heartbeat."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.works, self.error = driver, True, ""
        self.ahead = timedelta()
        """How much the clock of the agent is ahead of the controller's."""

    @property
    def now(self) -> datetime:
        """By the clock of the controller."""
        return self.driver.clock.now() - self.ahead

    async def begin_next_agent(self, away: timedelta = timedelta(), ahead: timedelta = timedelta()) -> None:
        """The agent has ended, and ``away`` later another takes the instance over."""
        await self.driver.instance.stop()
        clock, self.ahead = NextClock(self.now + away + ahead), ahead
        self.driver = Driver(bench(clock=clock, cluster=self.driver.cluster, **SETTINGS))
        await self.driver.begin()

    def annotate(self, **annotations: str | None) -> None:
        """Somebody does, the heartbeat."""
        self.driver.cluster.edit("Application", NAME, {"metadata": {"annotations": annotations}})

    def application(self) -> dict[str, Any] | None:
        return self.driver.cluster.objects.get(("Application", NAME))

    async def live(self, seconds: float) -> None:
        """So long."""
        for _ in range(int(seconds / EVERY)):
            await self.driver.clock.advance(EVERY)
            if self.works:
                self.compare()

    def compare(self) -> None:
        application = self.application()
        if application is None:
            return
        asked = REFRESH in application["metadata"].get("annotations", {})
        if asked or "status" not in application:
            conditions = [{"type": "ComparisonError", "message": self.error}] if self.error else []
            at = rfc3339(self.now)
            status = {"reconciledAt": at, "conditions": conditions}
            self.driver.cluster.edit(
                "Application", NAME, {"metadata": {"annotations": {REFRESH: None}}, "status": status}
            )

    @property
    def told(self) -> list[EngineHealth]:
        return [event for _, event in self.driver.reports.told if isinstance(event, EngineHealth)]

    @property
    def course(self) -> list[tuple[str, str]]:
        """What was told, without what was said before."""
        found = [(each.health, each.reason) for each in self.told]
        return [each for number, each in enumerate(found) if number == 0 or each != found[number - 1]]


def metric(name: str) -> float | None:
    return REGISTRY.get_sample_value(f"gitops_engine_{name}", {"instance": INSTANCE})


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine(Driver(bench(**SETTINGS)))
    made.driver.engine.version = "3.2.11"
    await made.driver.begin()
    yield made
    await made.driver.instance.stop()
    assert made.driver.defects == []


async def test_instance_when_it_is_well_then_that_is_told_each_minute_with_its_version_and_heartbeat(
    engine: Engine,
) -> None:
    await engine.live(3 * EVERY)
    assert [(each.health, each.version) for each in engine.told] == [("Healthy", "3.2.11")]
    await engine.live(10 * REPORT_SECONDS)
    assert len(engine.told) == 11
    last = engine.told[-1].heartbeat_at
    assert last is not None
    assert engine.driver.clock.now() - last <= timedelta(seconds=DEADLINE)


@pytest.fixture
async def added() -> AsyncIterator[Engine]:
    """One that is not in service yet."""
    made = Engine(Driver(bench(is_in_service=False, **SETTINGS)))
    await made.driver.begin()
    yield made
    await made.driver.instance.stop()
    assert made.driver.defects == []


@pytest.mark.parametrize("days", [300, 3], ids=["well", "with a certificate that expires"])
async def test_added_instance_when_its_controller_has_never_compared_anything_then_it_is_not_told_to_work_meanwhile(
    added: Engine, days: int
) -> None:
    engine = added
    engine.driver.cluster.certificate = certificate(days).public_bytes(DER)
    engine.works = False
    await engine.live(DEADLINE)
    assert engine.told == []
    await engine.live(5 * EVERY)
    assert engine.course == [("Degraded", "HeartbeatLate")]


@pytest.mark.parametrize(
    "failure", [Retry("connection refused"), Rejected("403 Forbidden", 403)], ids=["it is not read", "nobody may"]
)
async def test_added_instance_when_its_heartbeat_cannot_be_read_then_it_is_not_told_to_work_until_it_can(
    added: Engine, failure: GitOpsError
) -> None:
    added.driver.cluster.refusing[NAME] = failure
    await added.live(10 * EVERY)
    assert added.told == []
    added.driver.cluster.refusing.clear()
    await added.live(3 * EVERY)
    assert added.course == [("Healthy", "")]
    assert added.told[0].heartbeat_at is not None


async def test_instance_in_service_when_somebody_deletes_its_heartbeat_then_it_goes_on_to_be_told_of(
    engine: Engine,
) -> None:
    await engine.live(60)
    engine.works, told = False, len(engine.told)
    engine.driver.cluster.remove("Application", NAME)
    await engine.live(REPORT_SECONDS)
    assert [(each.health, each.heartbeat_at) for each in engine.told[told:]] == [("Healthy", None)]
    await engine.live(REPORT_SECONDS)
    assert engine.course == [("Healthy", ""), ("Degraded", "HeartbeatLate")]


async def test_instance_when_its_controller_stops_then_it_is_degraded_then_down_and_well_again_when_it_is_back(
    engine: Engine,
) -> None:
    await engine.live(120)
    engine.works = False
    await engine.live(DEADLINE / 2 + DEADLINE + 4 * EVERY)
    assert engine.course == [("Healthy", ""), ("Degraded", "HeartbeatLate")]
    await engine.live(4 * DEADLINE)
    assert engine.course[2:] == [("Down", "HeartbeatLost")]
    assert metric("health") == 2
    engine.works = True
    await engine.live(4 * EVERY)
    assert engine.course[3:] == [("Healthy", "")]


@pytest.mark.parametrize(
    ("silent", "told"),
    [(DEADLINE, ("Degraded", "HeartbeatLate")), (LOST_AFTER, ("Down", "HeartbeatLost"))],
    ids=["late", "lost"],
)
async def test_instance_when_another_agent_takes_it_over_while_its_controller_hangs_then_it_is_never_told_to_be_well(
    engine: Engine, silent: float, told: tuple[str, str]
) -> None:
    await engine.live(120)
    engine.works = False
    await engine.live(DEADLINE / 2 + silent + 4 * EVERY)
    assert engine.course[-1] == told
    await engine.begin_next_agent()
    await engine.live(3 * EVERY)
    assert engine.course == [told]
    await engine.live(LOST_AFTER)
    assert engine.course[-1] == ("Down", "HeartbeatLost")
    engine.works = True
    await engine.live(4 * EVERY)
    assert engine.course[-1] == ("Healthy", "")


async def test_instance_when_its_controller_takes_the_request_off_and_compares_nothing_then_its_next_agent_knows(
    engine: Engine,
) -> None:
    await engine.live(120)
    engine.works = False
    await engine.live(DEADLINE + LOST_AFTER)
    engine.annotate(**{REFRESH: None})
    await engine.begin_next_agent()
    await engine.live(3 * EVERY)
    assert engine.course == [("Down", "HeartbeatLost")]


WRITTEN = {
    "nothing, by an older agent": (None, None),
    "something else": ("yesterday", "the day before"),
}


@pytest.mark.parametrize(("asked_at", "compared_before"), WRITTEN.values(), ids=WRITTEN)
async def test_instance_when_it_is_not_to_be_read_when_its_heartbeat_was_asked_for_then_its_last_comparison_counts(
    engine: Engine, asked_at: str | None, compared_before: str | None
) -> None:
    await engine.live(120)
    engine.works = False
    await engine.live(DEADLINE + LOST_AFTER)
    engine.annotate(**{ASKED_AT: asked_at, COMPARED_BEFORE: compared_before})
    await engine.begin_next_agent()
    await engine.live(3 * EVERY)
    assert engine.course == [("Down", "HeartbeatLost")]
    assert LOST_AFTER < (metric("heartbeat_silence_seconds") or 0) < 2 * LOST_AFTER


async def test_instance_when_its_controller_compares_while_no_agent_has_it_then_it_is_well(engine: Engine) -> None:
    await engine.live(120)
    engine.works = False
    await engine.live(DEADLINE + LOST_AFTER)
    engine.works = True
    engine.compare()
    await engine.begin_next_agent(away=timedelta(hours=2))
    await engine.live(10 * EVERY)
    assert engine.course == [("Healthy", "")]


async def test_instance_when_the_clock_of_its_next_agent_is_behind_then_it_has_not_been_silent_for_less_than_nothing(
    engine: Engine,
) -> None:
    await engine.live(120)
    engine.works = False
    await engine.live(EVERY + DEADLINE)
    await engine.begin_next_agent(ahead=-timedelta(hours=1))
    await engine.live(3 * EVERY)
    assert metric("heartbeat_silence_seconds") == 2 * EVERY
    await engine.live(DEADLINE + LOST_AFTER)
    assert engine.course[-1] == ("Down", "HeartbeatLost")


async def test_instance_when_it_was_never_compared_then_its_next_agent_counts_from_when_its_heartbeat_was_made(
    engine: Engine,
) -> None:
    engine.works = False
    await engine.live(EVERY)
    made = {"metadata": {"creationTimestamp": rfc3339(engine.now)}}
    engine.driver.cluster.edit("Application", NAME, made)
    await engine.live(DEADLINE + LOST_AFTER)
    await engine.begin_next_agent()
    await engine.live(3 * EVERY)
    assert engine.course == [("Down", "HeartbeatLost")]


async def test_instance_when_it_comes_back_to_an_agent_then_what_another_has_asked_for_meanwhile_counts(
    engine: Engine,
) -> None:
    await engine.live(120)
    await engine.driver.instance.suspend()
    await engine.driver.clock.advance(3600)
    compared, told = rfc3339(engine.now), len(engine.told)
    engine.driver.cluster.edit("Application", NAME, {"status": {"reconciledAt": compared}})
    engine.annotate(**{REFRESH: "normal", ASKED_AT: compared, COMPARED_BEFORE: compared})
    engine.works = False
    engine.driver.instance.start_work([])
    await engine.live(4 * EVERY)
    assert [each.health for each in engine.told[told:]] == ["Healthy"]


async def test_instance_when_its_certificate_expires_then_it_is_degraded_until_that_is_renewed_and_the_metric_says_when(
    engine: Engine,
) -> None:
    engine.driver.cluster.certificate = certificate(3).public_bytes(DER)
    await engine.live(60)
    assert engine.course == [("Degraded", "CertificateExpiring")]
    assert "API server expires at 2026-01-04 00:00 UTC: renew it" in engine.told[-1].message
    labels = {"instance": INSTANCE, "certificate": OF_API_SERVER}
    expiration = "gitops_engine_certificate_expiration_timestamp_seconds"
    assert REGISTRY.get_sample_value(expiration, labels) == (EPOCH + timedelta(days=3)).timestamp()
    assert engine.told[-1].certificate_expires_at == EPOCH + timedelta(days=3)
    engine.driver.cluster.certificate = certificate(90).public_bytes(DER)
    await engine.live(LOOK_SECONDS + 60)
    assert engine.course[1:] == [("Healthy", "")]
    assert engine.told[-1].certificate_expires_at == EPOCH + timedelta(days=90)
    await engine.driver.instance.suspend()
    assert REGISTRY.get_sample_value(expiration, labels) is None


async def test_instance_when_it_runs_another_version_than_it_was_ordered_with_then_it_is_degraded() -> None:
    engine = Engine(Driver(bench(wanted_version="3.2.11", **SETTINGS)))
    engine.driver.engine.version = "3.1.16"
    await engine.driver.begin()
    await engine.live(60)
    assert engine.course == [("Degraded", "OtherVersion")]
    engine.driver.engine.version = "3.2.11"
    await engine.live(60)
    assert engine.course[1:] == [("Healthy", "")]
    await engine.driver.instance.stop()


async def test_instance_when_applications_wait_at_every_measurement_then_the_next_report_has_them_as_its_queue(
    engine: Engine,
) -> None:
    await engine.live(4 * EVERY)
    never_compared = [application_row(f"app-{number}") for number in range(3)]
    await engine.driver.apply(*never_compared)
    await engine.live(2 * REPORT_SECONDS)
    assert [each.queue for each in engine.told] == [0, 0, 3]


async def test_instance_when_its_repo_server_does_not_answer_then_the_heartbeat_says_so(engine: Engine) -> None:
    engine.error = "rpc error: code = Unavailable desc = connection refused"
    await engine.live(120)
    assert engine.course[-1] == ("Down", "RepoServerFailing")


async def test_heartbeat_when_made_then_its_project_permits_one_repository_and_no_kind_and_it_is_not_ours_to_deploy(
    engine: Engine,
) -> None:
    await engine.live(EVERY)
    project, application = (engine.driver.cluster.objects[kind, NAME] for kind in ("AppProject", "Application"))
    assert project["spec"]["sourceRepos"] == [SETTINGS["heartbeat_repository"]]
    everything = [{"group": "*", "kind": "*"}]
    assert project["spec"]["namespaceResourceBlacklist"] == project["spec"]["clusterResourceBlacklist"] == everything
    assert application["spec"]["project"] == NAME
    assert "syncPolicy" not in application["spec"]
    for each in (project, application):
        assert "labels" not in each["metadata"], "it would be an orphan"


async def test_heartbeat_when_somebody_changes_or_deletes_it_then_it_is_made_as_it_was(engine: Engine) -> None:
    await engine.live(EVERY)
    cluster = engine.driver.cluster
    wanted = {kind: cluster.objects[kind, NAME]["spec"] for kind in ("AppProject", "Application")}
    cluster.edit("AppProject", NAME, {"spec": {"namespaceResourceBlacklist": None, "clusterResourceWhitelist": []}})
    cluster.edit("Application", NAME, {"spec": {"syncPolicy": {"automated": {}}}})
    await engine.live(EVERY)
    assert {kind: cluster.objects[kind, NAME]["spec"] for kind in wanted} == wanted
    cluster.remove("Application", NAME)
    await engine.live(EVERY)
    assert cluster.objects["Application", NAME]["spec"] == wanted["Application"]


async def test_heartbeat_when_nothing_has_been_compared_for_hours_then_it_is_not_taken_for_an_orphan(
    engine: Engine,
) -> None:
    await engine.live(7200)
    assert engine.application() is not None


async def test_heartbeat_when_it_is_answered_then_it_is_asked_for_half_a_deadline_later(engine: Engine) -> None:
    await engine.live(600)
    asked = [call for call in engine.driver.cluster.calls if call == ("patch", NAME)]
    assert 12 <= len(asked) <= 20


async def test_instance_when_no_repository_is_named_then_there_is_no_heartbeat_and_it_is_well() -> None:
    engine = Engine(Driver(bench(health_interval_seconds=EVERY)))
    await engine.driver.begin()
    await engine.live(120)
    assert engine.course == [("Healthy", "")]
    assert engine.told[0].heartbeat_at is None
    assert engine.driver.cluster.writes() == []
    await engine.driver.instance.stop()


@pytest.mark.parametrize("is_out_of_reach", [False, True], ids=["it cannot be made", "nothing can be read"])
async def test_heartbeat_when_it_is_no_signal_then_no_silence_is_shown_until_it_is_one_again(
    engine: Engine, is_out_of_reach: bool
) -> None:
    await engine.live(60)
    assert metric("heartbeat_silence_seconds") is not None
    cluster = engine.driver.cluster
    cluster.remove("Application", NAME)
    if is_out_of_reach:
        cluster.failing = Retry("connection refused")
    else:
        cluster.refusing[NAME] = Rejected("403 Forbidden", 403)
    await engine.live(2 * EVERY)
    assert metric("heartbeat_silence_seconds") is None
    cluster.failing = None
    cluster.refusing.clear()
    await engine.live(2 * EVERY)
    assert metric("heartbeat_silence_seconds") is not None


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(Retry("connection refused"), "ApiFailing"), (Rejected("403 Forbidden", 403), "Closed")],
    ids=["its API server does not answer", "its namespace is gone with all rights there"],
)
async def test_instance_when_it_is_out_of_reach_then_that_is_told_within_half_a_minute_and_inspected_until_it_is_back(
    engine: Engine, failure: GitOpsError, reason: str
) -> None:
    await engine.live(60)
    assert (metric("unreachable"), engine.driver.inspections) == (0, [])
    engine.driver.cluster.failing = failure
    await engine.live(3 * EVERY)
    assert engine.course[-1] == ("Down", reason)
    assert (metric("unreachable"), len(engine.driver.inspections)) == (1, 1)
    await engine.live(600)
    assert len(engine.driver.inspections) == 1
    engine.driver.cluster.failing = None
    await engine.live(5 * EVERY)
    assert engine.course[-1] == ("Healthy", "")
    assert (metric("unreachable"), len(engine.driver.inspections)) == (0, 2)


async def test_redis_when_it_is_scaled_to_none_then_that_is_told_though_it_has_no_pod(engine: Engine) -> None:
    redis = {"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "readyReplicas": 1}}
    engine.driver.cluster.put("Deployment", REDIS, redis)
    await engine.live(60)
    engine.driver.cluster.edit("Deployment", REDIS, {"spec": {"replicas": 0}, "status": {"readyReplicas": None}})
    await engine.live(3 * EVERY)
    assert engine.course == [("Healthy", ""), ("Degraded", "RedisNotReady")]


async def test_instance_when_it_has_no_configuration_then_it_is_not_taken_for_closed(engine: Engine) -> None:
    assert ("ConfigMap", "argocd-cm") not in engine.driver.cluster.objects
    await engine.live(120)
    assert engine.course == [("Healthy", "")]


async def test_instance_when_another_agent_has_it_then_this_one_says_nothing_of_it_any_more(engine: Engine) -> None:
    await engine.live(60)
    await engine.driver.instance.suspend()
    told = len(engine.told)
    await engine.live(600)
    assert len(engine.told) == told
    assert (metric("health"), metric("unreachable")) == (None, None)


async def test_report_when_it_is_lost_then_the_next_measurement_tells_it(engine: Engine) -> None:
    arrivals = iter([False])
    send = engine.driver.reports.send_report

    def lose(instance: str, event: Any, delivered: Any) -> None:
        send(instance, event, lambda arrived: delivered(next(arrivals, arrived)))

    engine.driver.reports.send_report = lose  # type: ignore[method-assign]
    await engine.live(5 * EVERY)
    assert len(engine.told) == 2
