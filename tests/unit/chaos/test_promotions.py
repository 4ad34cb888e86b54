"""The checker sees which promotions have succeeded that must, and takes no failure for granted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from chaos.record import Gap, WrongClock
from services.common.kubernetes import Manifest
from tests.unit.chaos.scene import HOME, Scene, build, commit_of, settled, show_synced, thing

BEGAN = "2026-01-01T00:00:00+00:00"
RUN = f"PromotionRun {HOME}/p0"
CHAIN = ("dev", "stage", "prod")
MADE, ENDED = 100, 200
"""Resource versions of a run."""


def run(
    name: str,
    state: str,
    result: str = "",
    steps: Sequence[str] = ("dev",),
    *,
    automated: bool = False,
    seconds: int = 5,
) -> Manifest:
    """One that has got so far, and ended after so many seconds; in its last environment if it has failed."""
    item = thing("PromotionRun", HOME, name, f"u-{name}")
    ended = datetime.fromisoformat(BEGAN) + timedelta(seconds=seconds)
    item["metadata"] |= {"creationTimestamp": BEGAN, "managedFields": [{"time": ended.isoformat()}]}
    where = (
        {"automatedPromotion": {"initialEnvironment": "dev"}}
        if automated
        else {"manualPromotion": {"targetEnvironment": "dev"}}
    )
    shown = [{"environmentName": each, "status": "Success"} for each in steps]
    if result == "Failure":
        shown[-1]["status"] = "Failed"
    item["metadata"]["resourceVersion"] = str(ENDED)
    return item | {
        "spec": {"application": "shop", "snapshot": "one"} | where,
        "status": {"state": state, "completionResult": result or None, "environmentStatus": shown},
    }


def environment(name: str, parent: str = "") -> Manifest:
    spec: dict[str, Any] = {"displayName": name, "deploymentStrategy": "AppStudioAutomated" if parent else "Manual"}
    return thing("Environment", HOME, name, f"u-{name}") | {
        "spec": spec | ({"parentEnvironment": parent} if parent else {})
    }


@pytest.fixture
def scene() -> Scene:
    """What is settled, three environments, one after the other, and a snapshot that was deployed to each in time."""
    scene = settled()
    for name, parent in zip(CHAIN, ("", *CHAIN), strict=False):
        scene.put(name, environment(name, parent))
        show_synced(scene, build(scene, "one", name), version=MADE + 1)
    spec = {"application": "shop", "components": []}
    scene.put("snapshot", thing("Snapshot", HOME, "one", "u-one") | {"spec": spec})
    return scene


def put(scene: Scene, promotion: Manifest, made: int = MADE) -> None:
    """A run as it is now, which a user has made."""
    name = promotion["metadata"]["name"]
    scene.put(name, copy.deepcopy(promotion))
    scene.objects[name]["metadata"]["resourceVersion"] = str(made)
    scene.objects[name] = promotion


def told(scene: Scene) -> set[tuple[str, str]]:
    return {(each.sort, each.subject) for each in scene.judged()}


@pytest.mark.parametrize(
    ("promotion", "is_right"),
    [
        pytest.param(run("p0", "Complete", "Success"), True, id="success"),
        pytest.param(run("p0", "Complete", "Success", CHAIN, automated=True), True, id="success everywhere"),
        pytest.param(run("p0", "Complete", "Success", CHAIN[:2], automated=True), False, id="one left out"),
        pytest.param(run("p0", "Complete", "Success", ["dev", "prod", "stage"], automated=True), False, id="order"),
        pytest.param(run("p0", "Complete", "Success", CHAIN), False, id="too far"),
        pytest.param(run("p0", "Active"), False, id="unfinished"),
        pytest.param(run("p0", "Waiting"), False, id="not begun"),
        pytest.param(run("p0", "Complete", "Failure"), False, id="failure"),
        pytest.param(run("p0", "Complete", "Failure", seconds=599), False, id="failure too early"),
        pytest.param(run("p0", "Complete", "Failure", seconds=600), True, id="failure in time"),
    ],
)
def test_promotion_when_it_has_ended_then_it_has_succeeded_everywhere_or_had_its_time(
    scene: Scene, promotion: Manifest, is_right: bool
) -> None:
    put(scene, promotion)
    assert told(scene) == (set() if is_right else {("status", RUN)})


@pytest.mark.parametrize(
    ("process", "seconds", "explains"),
    [("planner-1", 3600, True), ("planner-2", -3600, True), ("planner-1", 60, False), ("watcher-1", 3600, False)],
)
def test_failure_when_a_clock_was_wrong_meanwhile_then_a_planners_explains_it_if_that_was_by_enough(
    scene: Scene, process: str, seconds: float, explains: bool
) -> None:
    began = datetime.fromisoformat(BEGAN)
    scene.put("promotion", run("p0", "Complete", "Failure"))
    scene.record.wrong_clocks.append(WrongClock(process, seconds, began + timedelta(minutes=1), began))
    assert told(scene) == {("status", RUN)}
    scene.record.wrong_clocks.append(WrongClock(process, seconds, began, began + timedelta(seconds=1)))
    assert told(scene) == (set() if explains else {("status", RUN)})


def foreign(state: str, result: str = "", *, steps: Sequence[str] = ("dev",), says: str = "it is of blog") -> Manifest:
    """A run of a snapshot of another application."""
    item = run("p0", state, result, steps)
    item["spec"]["snapshot"] = "foreign"
    item["status"]["conditions"] = [{"type": "ErrorOccurred", "status": "True", "message": says}] if says else []
    return item


@pytest.mark.parametrize(
    ("promotion", "is_right"),
    [
        pytest.param(foreign("Complete", "Failure"), True, id="failure"),
        pytest.param(foreign("Complete", "Failure", says=""), False, id="failure without a reason"),
        pytest.param(foreign("Complete", "Failure", steps=CHAIN), False, id="failure further on"),
        pytest.param(foreign("Complete", "Success"), False, id="success"),
        pytest.param(foreign("Active"), False, id="unfinished"),
        pytest.param(foreign("Waiting"), False, id="not begun"),
    ],
)
def test_promotion_when_its_snapshot_is_of_another_application_then_it_has_failed_and_says_why(
    scene: Scene, promotion: Manifest, *, is_right: bool
) -> None:
    scene.put("other", thing("Snapshot", HOME, "foreign", "u-foreign") | {"spec": {"application": "blog"}})
    put(scene, promotion)
    assert told(scene) == (set() if is_right else {("status", RUN)})


def test_promotion_when_its_snapshot_was_deleted_then_it_may_fail(scene: Scene) -> None:
    scene.put("promotion", run("p0", "Complete", "Failure"))
    scene.record.deleted.add(("Snapshot", HOME, "one"))
    assert scene.judged() == []


def test_promotion_when_its_snapshot_is_gone_then_it_says_so_and_others_wait_for_it(scene: Scene) -> None:
    scene.remove("snapshot")
    held_up, waiting = run("p0", "Active"), run("p1", "Waiting")
    waiting["spec"]["snapshot"] = "two"
    scene.put("promotion", held_up)
    scene.put("waiting", waiting)
    scene.put("other", thing("Snapshot", HOME, "two", "u-two") | {"spec": {"application": "shop", "components": []}})
    assert told(scene) == {("status", RUN)}
    held_up["status"]["conditions"] = [{"type": "ErrorOccurred", "status": "True", "message": "it is gone"}]
    assert scene.judged() == []
    scene.remove("promotion")
    assert told(scene) == {("status", f"PromotionRun {HOME}/p1")}


def succeeded(scene: Scene) -> None:
    """A run to a fourth environment, of a snapshot that the build service has pushed there."""
    promotion = run("p0", "Complete", "Success", ["qa"])
    promotion["spec"]["manualPromotion"] = {"targetEnvironment": "qa"}
    scene.put("qa", environment("qa"))
    put(scene, promotion)


@pytest.mark.parametrize("version", [MADE - 1, MADE + 1, ENDED], ids=["before it began", "meanwhile", "at its end"])
def test_success_when_what_the_build_service_names_was_deployed_by_then_then_it_is_believed(
    scene: Scene, version: int
) -> None:
    succeeded(scene)
    show_synced(scene, build(scene, "one", "qa"), version)
    assert scene.judged() == []
    assert scene.judgement().judged_by_commits == 1


def test_success_when_a_later_commit_of_the_branch_was_deployed_then_it_is_believed(scene: Scene) -> None:
    succeeded(scene)
    build(scene, "one", "qa")
    later = build(scene, "two", "qa")
    show_synced(scene, later, MADE + 1)
    assert scene.judged() == []


def test_success_when_it_was_told_before_anything_was_deployed_then_that_is_told(scene: Scene) -> None:
    """As of a planner that does not look at commits."""
    succeeded(scene)
    show_synced(scene, build(scene, "one", "qa"), ENDED + 1)
    assert told(scene) == {("status", RUN)}


def test_success_when_another_commit_was_deployed_all_the_time_then_that_is_told(scene: Scene) -> None:
    """As of a planner that is content with whatever is synced and healthy."""
    succeeded(scene)
    show_synced(scene, build(scene, "two", "qa"), MADE - 1)
    build(scene, "one", "qa")
    assert told(scene) == {("status", RUN)}


def test_success_when_its_commit_was_replaced_before_it_began_then_that_is_told(scene: Scene) -> None:
    succeeded(scene)
    show_synced(scene, build(scene, "one", "qa", "one"), MADE - 2)
    show_synced(scene, build(scene, "two", "qa", "two"), MADE - 1)
    assert told(scene) == {("status", RUN)}


def test_success_when_its_commit_was_compared_and_not_synced_then_that_is_told(scene: Scene) -> None:
    succeeded(scene)
    show_synced(scene, build(scene, "one", "qa"), MADE + 1, status="OutOfSync")
    assert told(scene) == {("status", RUN)}


def test_success_when_the_build_service_names_nothing_for_it_then_that_is_told(scene: Scene) -> None:
    succeeded(scene)
    show_synced(scene, commit_of("one", "qa"), MADE + 1)
    assert told(scene) == {("status", RUN)}


def test_success_when_nobody_watched_for_a_while_then_it_is_not_judged_by_commits(scene: Scene) -> None:
    succeeded(scene)
    scene.record.witness_gaps.append(Gap(MADE + 10, MADE + 20))
    assert scene.judged() == []
    assert scene.judgement().judged_by_commits == 0
