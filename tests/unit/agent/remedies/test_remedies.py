"""An order of a remedy: carried out once, whoever does it and however often, and told."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from services.agent.health.heartbeat import NAME as HEARTBEAT
from services.agent.remedies.remedy_actions import REMEDIED
from services.agent.stream.owned_instances import start_work
from services.common.errors import Retry
from services.common.kubernetes import Rejected
from services.common.messages import REMEDY, Applied, EngineResource, Failed, Remedy
from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import bench
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import FakeClock, settle

REFRESH = "argocd.argoproj.io/refresh"
CONTROLLER = "argocd-application-controller"


def order(remedy: str, clock: FakeClock, later: float = 0) -> EngineResource:
    """Ordered so many seconds from now."""
    number = round((clock.now() + timedelta(seconds=later)).timestamp() * 1000)
    manifest = json.dumps({"number": number, "remedy": remedy})
    return replace(
        application_row(str(number)), kind=REMEDY, namespace="", manifest=manifest, workspace="", tenant_namespace=""
    )


def put_pod(driver: Driver, name: str, age: float, workload: str = CONTROLLER) -> None:
    """So old, in seconds."""
    created = driver.clock.now() - timedelta(seconds=age)
    metadata = {"labels": {"app.kubernetes.io/name": workload}, "creationTimestamp": created.isoformat()}
    driver.cluster.put("Pod", name, {"metadata": metadata})


def deleted(driver: Driver) -> list[str]:
    return [name for verb, name in driver.cluster.calls if verb == "delete"]


def annotated(driver: Driver, name: str) -> dict[str, str]:
    found: dict[str, str] = driver.cluster.objects["Application", name]["metadata"].get("annotations", {})
    return found


WORKLOADS = {
    Remedy.RESTART_CONTROLLER: CONTROLLER,
    Remedy.RESTART_REPO_SERVER: "argocd-repo-server",
    Remedy.FLUSH_CACHE: "argocd-redis",
}


@pytest.mark.parametrize("remedy", WORKLOADS)
async def test_restart_when_ordered_then_all_pods_of_the_workload_go_that_are_older(remedy: Remedy) -> None:
    driver = Driver(bench())
    await driver.begin()
    for workload in WORKLOADS.values():
        put_pod(driver, f"{workload}-0", 100, workload)
    put_pod(driver, "younger", -2, WORKLOADS[remedy])
    row = order(remedy, driver.clock)
    offset = driver.submit(row)
    await settle()
    assert deleted(driver) == [f"{WORKLOADS[remedy]}-0"]
    assert driver.reports.of(row.name) == [Applied(row.digest)]
    assert offset in driver.acknowledged
    await driver.instance.stop()


async def test_restart_when_another_agent_takes_over_then_what_was_restarted_is_not_again() -> None:
    """Killed between two pods, or before it could tell: the next one finds the row, and the pods."""
    driver = Driver(bench())
    await driver.begin()
    put_pod(driver, "first", 100)
    put_pod(driver, "second", 100)
    driver.cluster.refusing["second"] = Retry("cut off")
    row = order(Remedy.RESTART_CONTROLLER, driver.clock)
    await driver.apply(row)
    await driver.instance.suspend()
    assert driver.cluster.names("Pod") == ["second"]
    del driver.cluster.refusing["second"]
    put_pod(driver, "first", -2)
    start_work(driver.instance, [row], [row])
    await settle()
    assert driver.cluster.names("Pod") == ["first"]
    start_work(driver.instance, [row])
    await settle()
    assert driver.cluster.names("Pod") == ["first"]
    await driver.instance.stop()


async def test_remedy_when_it_cannot_be_done_yet_then_it_is_tried_again_until_it_is_ordered_no_more() -> None:
    driver = Driver(bench())
    await driver.begin()
    put_pod(driver, "pod", 100)
    driver.cluster.refusing["pod"] = Retry("cut off")
    row = order(Remedy.RESTART_CONTROLLER, driver.clock)
    await driver.apply(row)
    await driver.clock.advance(5)
    tried = len(deleted(driver))
    assert tried >= 2
    assert driver.reports.of(row.name) == []
    await driver.apply(replace(row, deleted=True))
    await driver.clock.advance(60)
    assert len(deleted(driver)) == tried
    await driver.instance.stop()


IMPOSSIBLE = {
    "no pod is to be seen": (Remedy.RESTART_REPO_SERVER, "no pod of argocd-repo-server is to be seen"),
    "rights are missing": (Remedy.RESTART_CONTROLLER, "forbidden"),
    "it is a provisioner's": ("ReapplyConfiguration", "not a remedy that this agent knows"),
    "there is nothing to compare": (Remedy.REFRESH, "no Application to be compared"),
    "it is of a newer release": ("Exorcism", "not a remedy that this agent knows"),
}


@pytest.mark.parametrize(("remedy", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
async def test_remedy_when_it_can_never_be_done_there_then_it_is_told_why_at_once(remedy: str, words: str) -> None:
    driver = Driver(bench())
    await driver.begin()
    put_pod(driver, "pod", 100)
    driver.cluster.refusing["pod"] = Rejected("forbidden", 403)
    row = order(remedy, driver.clock)
    await driver.apply(row)
    (failed,) = driver.reports.of(row.name)
    assert isinstance(failed, Failed)
    assert words in failed.message
    assert (driver.cluster.names("Pod"), driver.defects) == (["pod"], [])
    await driver.instance.stop()


async def test_refresh_when_ordered_then_the_heartbeat_and_what_is_late_are_compared_without_the_cache_once() -> None:
    driver = Driver(bench())
    await driver.begin(application_row("late"), application_row("in-time"))
    now = driver.clock.now()
    times = {"late": now - timedelta(minutes=8), "in-time": now}
    for name, created in times.items():
        driver.cluster.edit("Application", name, {"metadata": {"creationTimestamp": created.isoformat()}})
    driver.cluster.put("Application", HEARTBEAT, {"spec": {}})
    await settle()
    row = order(Remedy.REFRESH, driver.clock)
    await driver.apply(row)
    wanted = {REFRESH: "hard", REMEDIED: row.name}
    assert wanted.items() <= annotated(driver, "late").items()
    assert wanted.items() <= annotated(driver, HEARTBEAT).items()
    assert REFRESH not in annotated(driver, "in-time")
    assert driver.reports.of(row.name) == [Applied(row.digest)]
    for name in ("late", HEARTBEAT):  # Argo CD has compared them
        driver.cluster.edit("Application", name, {"metadata": {"annotations": {REFRESH: None}}})
    await driver.instance.suspend()
    start_work(driver.instance, [row])
    await settle()
    assert REFRESH not in annotated(driver, HEARTBEAT)
    await driver.instance.stop()


async def test_order_when_a_newer_one_comes_then_the_older_is_not_carried_out_any_more() -> None:
    driver = Driver(bench())
    await driver.begin()
    put_pod(driver, "pod", 100)
    newer, older = order(Remedy.REFRESH, driver.clock, 2), order(Remedy.RESTART_CONTROLLER, driver.clock, 1)
    await driver.apply(newer, older)
    assert driver.cluster.names("Pod") == ["pod"]
    await driver.instance.stop()


@pytest.mark.parametrize("name", ["", "-1", "one", "9" * 400])
async def test_order_when_it_has_no_number_then_it_is_refused(name: str) -> None:
    driver = Driver(bench())
    await driver.begin()
    put_pod(driver, "pod", 100)
    await driver.apply(replace(order(Remedy.RESTART_CONTROLLER, driver.clock), name=name))
    assert (driver.cluster.names("Pod"), driver.defects) == (["pod"], [])
    await driver.instance.stop()
