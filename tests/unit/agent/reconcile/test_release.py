"""An Application that is given up: it goes, and nothing of what it has deployed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.agent.objects.desired_objects import desired_object
from services.agent.objects.live import live_object
from services.agent.objects.managed_kinds import APPLICATION_KIND, CASCADE_FINALIZER
from services.agent.reconcile.object_steps import (
    OPERATION_PATIENCE,
    AwaitRemoval,
    Delete,
    ObjectStep,
    Patch,
    Unchanged,
    release_step,
)
from services.common.kubernetes import Manifest
from services.common.messages import EngineResource, Removed
from services.common.messages.compiled import RELEASE
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row
from tests.unit.fake_clock import EPOCH, settle

ROW = application_row()
AUTOMATED = {"syncPolicy": {"automated": {"prune": True}}}


def released(row: EngineResource) -> EngineResource:
    manifest = json.dumps(json.loads(row.manifest) | {RELEASE: True})
    return replace(row, manifest=manifest, digest=hashlib.sha256(manifest.encode()).hexdigest())


def step(finalizers: list[str], after_seconds: float = 0, *, at_once: bool = False, **live: Any) -> ObjectStep:
    desired = desired_object(ROW)
    meta = desired["metadata"] | {"uid": "u", "resourceVersion": "3", "finalizers": finalizers}
    spec = desired["spec"] | live.pop("spec", {})
    found: Manifest = desired | {"metadata": meta | live.pop("metadata", {}), "spec": spec} | live
    now = EPOCH + timedelta(seconds=after_seconds)
    return release_step(live_object(APPLICATION_KIND, found), now, EPOCH, at_once=at_once)


def of_version(**change: Any) -> Patch:
    return Patch({"metadata": {"resourceVersion": "3"}} | change)


def running(phase: str = "Running", **more: Any) -> dict[str, Any]:
    """With an operation that began long before the Application is released."""
    state = {"phase": phase, "startedAt": (EPOCH - timedelta(hours=1)).isoformat()}
    return {"operation": {}, "status": {"operationState": state | more}}


NO_FINALIZERS = Patch({"metadata": {"resourceVersion": "3", "finalizers": []}})
STEPS: dict[str, tuple[ObjectStep, ObjectStep]] = {
    "one that is automated": (
        step([CASCADE_FINALIZER], spec=AUTOMATED),
        of_version(spec={"syncPolicy": {"automated": None}}),
    ),
    "one that is being synced": (step([], 59, **running()), AwaitRemoval(EPOCH + timedelta(seconds=60))),
    "one that is synced for too long": (
        step([], 60, **running()),
        of_version(status={"operationState": {"phase": "Terminating"}}),
    ),
    "one whose last attempt to be synced has failed": (
        step([], **running(finishedAt=EPOCH.isoformat())),
        of_version(status={"operationState": {"phase": "Terminating"}}),
    ),
    "one whose operation is being ended": (
        step([], 60, **running("Terminating")),
        AwaitRemoval(EPOCH + timedelta(seconds=120)),
    ),
    "one whose operation has not begun": (step([], operation={}), of_version(operation=None)),
    "one that would cascade": (step([CASCADE_FINALIZER]), NO_FINALIZERS),
    "one without finalizers": (step([]), Delete("u", 3, "Background")),
    "one that somebody else deletes": (
        step([CASCADE_FINALIZER], metadata={"deletionTimestamp": EPOCH.isoformat()}, **running()),
        NO_FINALIZERS,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), STEPS.values(), ids=STEPS)
def test_application_when_released_then_the_next_step_is(found: ObjectStep, expected: ObjectStep) -> None:
    assert found == expected


def test_application_when_it_is_gone_then_nothing_is_left_to_do() -> None:
    assert release_step(None, EPOCH, EPOCH) == Unchanged()


async def test_application_when_its_row_is_released_then_it_goes_without_cascade_and_that_is_reported(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(ROW)
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": [CASCADE_FINALIZER]}})
    driver.cluster.calls.clear()
    await driver.apply(released(ROW))
    await settle()
    assert ("Application", "app") not in driver.cluster.objects
    assert driver.cluster.objects.keys() == set()
    (last,) = [event for _, event in driver.reports.sent[-1:]]
    assert last == Removed(forced=False)


async def test_application_when_it_never_was_then_its_release_is_reported(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(released(ROW))
    assert [event for _, event in driver.reports.sent] == [Removed(forced=False)]


async def test_application_when_released_again_while_it_is_synced_then_it_is_waited_for_anew(driver: Driver) -> None:
    def phase() -> str:
        return str(driver.cluster.objects["Application", "app"]["status"]["operationState"]["phase"])

    await driver.begin()
    for _ in range(2):
        await driver.apply(ROW)
        driver.cluster.edit("Application", "app", running())
        await driver.apply(released(ROW))
        await driver.clock.advance(OPERATION_PATIENCE.total_seconds() - 1)
        assert phase() == "Running"
        await driver.clock.advance(1)
        assert phase() == "Terminating"
        ended = {"operation": None, "status": {"operationState": {"phase": "Failed"}}}
        driver.cluster.edit("Application", "app", ended)
        await driver.clock.until(lambda: ("Application", "app") not in driver.cluster.objects)


async def test_application_when_released_while_another_agent_has_the_instance_then_its_sync_is_waited_for_anew(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(ROW)
    driver.cluster.edit("Application", "app", running())
    await driver.apply(released(ROW))
    await driver.instance.suspend()
    await driver.clock.advance(OPERATION_PATIENCE.total_seconds())
    driver.instance.start_work([released(ROW)])
    await driver.clock.advance(OPERATION_PATIENCE.total_seconds() - 1)
    phase = driver.cluster.objects["Application", "app"]["status"]["operationState"]["phase"]
    assert phase == "Running"


async def test_application_when_made_again_by_somebody_after_its_release_then_it_goes_again(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(released(ROW))
    await driver.cluster.create_object(APPLICATION_KIND.resource, desired_object(ROW), field_manager="somebody")
    await settle()
    assert ("Application", "app") not in driver.cluster.objects


AT_ONCE_STEPS: dict[str, tuple[Manifest, ObjectStep]] = {
    "one that is automated": ({"spec": AUTOMATED}, Delete("u", 3, "Background")),
    "one that is being synced": (running(), Delete("u", 3, "Background")),
    "one whose operation has not begun": ({"operation": {}}, Delete("u", 3, "Background")),
}


@pytest.mark.parametrize(("live", "expected"), AT_ONCE_STEPS.values(), ids=AT_ONCE_STEPS)
def test_application_when_released_at_once_then_whatever_its_engine_does_is_not_waited_for(
    live: Manifest, expected: ObjectStep
) -> None:
    assert step([], at_once=True, **live) == expected
    assert step([CASCADE_FINALIZER], at_once=True, **live) == NO_FINALIZERS
