"""Manifests that change, on a real API server: who gets them when, what is recorded, what is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from services.agent.objects.fleet import Fleet
from services.agent.observe.observation_sink import ObservationSink
from services.agent.provisioning.installation import INSTANCE_LABEL, Renderings
from services.agent.provisioning.installer import Installer
from services.agent.provisioning.provisioner import Provisioner
from services.agent.provisioning.records import LABEL, NAME
from services.agent.provisioning.waves import WAITS, Record
from services.common.argocd_names import CONTROLLER
from services.common.kubernetes import CONFIG_MAP, STATEFUL_SET, KubeClient, Manifest, NotFound
from services.common.messages import EngineInstallation, FleetInstance
from tests.component.agent.test_provisioner import eventually
from tests.unit.agent.instances_of_fleet import HERE, instance_row
from tests.unit.agent.provisioning.renderings import bring_up, rendered, write
from tests.unit.fake_clock import EPOCH, FakeClock

SOAK_SECONDS = 300.0
VERSION = "3.2.11"
SETTINGS = "argocd-cm"
BEFORE, CHANGED = "gitops-service-argocd", "changed"
"""Values of a setting."""


class Told:
    """What was told last of each instance."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}

    def send_report(self, instance: str, event: EngineInstallation, _: object) -> None:
        self.messages[instance] = event.message


class Fixture:
    """Instances of an engine cluster, and provisioners that each are started for one comparison."""

    def __init__(self, kube: KubeClient, folder: Path) -> None:
        self.kube, self.folder = kube, folder
        self.clock, self.told = FakeClock(), Told()
        name = uuid4().hex[:8]
        self.canary, self.first, self.second = (
            instance_row(
                f"{each}-{name}", namespace=f"{each}-{name}", ring=ring, wanted_version=VERSION, health="Healthy"
            )
            for each, ring in (("canary", "canary"), ("first", "general"), ("second", "general"))
        )
        self.render(BEFORE)

    @property
    def installer(self) -> Installer:
        return Installer(self.kube, Renderings(self.folder))

    @property
    def rows(self) -> list[FleetInstance]:
        return [self.canary, self.first, self.second]

    def render(self, setting: str) -> None:
        """All that somebody renders anew is one setting."""
        write(self.folder, VERSION, [_with_setting(each, setting) for each in rendered(VERSION)])

    async def compare(self) -> None:
        provisioner = Provisioner(
            Fleet(HERE, self.rows),
            self.installer,
            cast("ObservationSink", self.told),
            self.clock,
            interval_seconds=30,
            soak_seconds=SOAK_SECONDS,
        )
        await provisioner.compare_all()

    async def settings(self, rows: Sequence[FleetInstance] = ()) -> list[Any]:
        found = [await self.kube.get_object(CONFIG_MAP, each.namespace, SETTINGS) for each in rows or self.rows]
        return [each["data"]["installationID"] for each in found]

    async def records(self) -> dict[str, Record]:
        found = {each.id: await self.installer.records.read(each) for each in self.rows}
        return {name: record for name, record in found.items() if record is not None}


def _with_setting(manifest: Manifest, setting: str) -> Manifest:
    is_it = manifest["metadata"]["name"] == SETTINGS
    return manifest | {"data": {"installationID": setting}} if is_it else manifest


@pytest.fixture
async def fleet(kube: KubeClient, tmp_path: Path) -> Fixture:
    """Which has run the same manifests for long."""
    made = Fixture(kube, tmp_path)
    await made.compare()
    await made.compare()  # what was just made is not looked at
    made.clock.seconds += SOAK_SECONDS
    return made


async def test_manifests_when_they_change_then_they_come_to_one_instance_and_to_others_once_it_worked_for_the_soak(
    fleet: Fixture,
) -> None:
    fleet.render(CHANGED)
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, BEFORE, BEFORE]
    assert fleet.told.messages == {
        fleet.canary.id: "",
        fleet.first.id: WAITS + f"its turn, after {fleet.canary.id}",
        fleet.second.id: WAITS + f"its turn, after {fleet.canary.id}",
    }
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, BEFORE, BEFORE]
    fleet.clock.seconds += SOAK_SECONDS
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, CHANGED, BEFORE]
    fleet.clock.seconds += SOAK_SECONDS
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, CHANGED, CHANGED]
    assert set(fleet.told.messages.values()) == {""}


async def test_manifests_when_the_first_instance_does_not_work_with_them_then_they_stop_and_set_back_they_heal_it(
    fleet: Fixture,
) -> None:
    fleet.render(CHANGED)
    await fleet.compare()
    fleet.canary = replace(fleet.canary, health="Down", health_reason="ControllerNotReady")
    fleet.clock.seconds += 10 * SOAK_SECONDS
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, BEFORE, BEFORE]
    expected = WAITS + f"{fleet.canary.id}, which has its changed ones already and is Down (ControllerNotReady)"
    assert fleet.told.messages[fleet.second.id] == expected
    fleet.render(BEFORE)
    await fleet.compare()
    assert await fleet.settings() == [BEFORE, BEFORE, BEFORE]
    assert set(fleet.told.messages.values()) == {""}


async def test_instance_when_it_waits_then_nothing_of_it_is_repaired_and_what_has_the_manifests_is(
    fleet: Fixture, kube: KubeClient
) -> None:
    fleet.render(CHANGED)
    await fleet.compare()
    for each in (fleet.canary, fleet.first):
        meddled = {"data": {"installationID": "meddled"}}
        await kube.patch_object(CONFIG_MAP, each.namespace, SETTINGS, meddled, field_manager="somebody")
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, "meddled", BEFORE]


async def test_record_when_the_installation_is_compared_and_applied_anew_then_it_stays_and_goes_with_the_namespace(
    fleet: Fixture, kube: KubeClient
) -> None:
    before = await fleet.records()
    assert {(each.since, each.ill) for each in before.values()} == {(EPOCH, "")}
    assert len({each.digest for each in before.values()}) == 1
    found = await kube.get_object(CONFIG_MAP, fleet.canary.namespace, NAME)
    assert found["metadata"]["labels"] == {LABEL: fleet.canary.id}
    assert INSTANCE_LABEL not in found["metadata"]["labels"]
    made_at = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
    fleet.canary = replace(fleet.canary, reapply_ordered_at=made_at + timedelta(seconds=1))
    await eventually(lambda: _is_past(made_at + timedelta(seconds=1)))
    await fleet.compare()
    after = await kube.get_object(CONFIG_MAP, fleet.canary.namespace, NAME)
    assert after["metadata"]["uid"] == found["metadata"]["uid"]
    records = await fleet.records()
    assert {each.digest for each in records.values()} == {each.digest for each in before.values()}
    assert records[fleet.canary.id].since is None, "its pods are made anew"
    await eventually(lambda: fleet.installer.remove(fleet.canary))
    with pytest.raises(NotFound):
        await kube.get_object(CONFIG_MAP, fleet.canary.namespace, NAME)


async def _is_past(moment: datetime) -> bool:
    return datetime.now(UTC) >= moment


async def test_instances_when_an_earlier_release_has_installed_them_then_those_that_do_not_differ_are_recorded_at_once(
    kube: KubeClient, tmp_path: Path
) -> None:
    fleet = Fixture(kube, tmp_path)
    await bring_up(fleet.installer, fleet.canary)
    fleet.render(CHANGED)
    for each in (fleet.first, fleet.second):
        await bring_up(fleet.installer, each)
    fleet.render(BEFORE)
    assert await fleet.records() == {}
    await fleet.compare()
    assert await fleet.settings() == [BEFORE, CHANGED, CHANGED]
    assert (await fleet.records()).keys() == {fleet.canary.id}
    fleet.clock.seconds += SOAK_SECONDS
    await fleet.compare()
    assert await fleet.settings() == [BEFORE, BEFORE, CHANGED]
    assert (await fleet.records()).keys() == {fleet.canary.id, fleet.first.id}


async def test_instance_when_nothing_of_it_is_there_any_more_then_it_is_made_anew_without_waiting(
    fleet: Fixture, kube: KubeClient
) -> None:
    await eventually(lambda: fleet.installer.remove(fleet.second))
    fleet.render(CHANGED)
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, BEFORE, CHANGED]


async def test_record_when_somebody_else_has_written_it_then_it_is_not_taken_for_one(
    fleet: Fixture, kube: KubeClient
) -> None:
    before = await fleet.records()
    for since in ("yesterday", "2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00"):
        spoiled = {"data": {"since": since}}
        await kube.patch_object(CONFIG_MAP, fleet.first.namespace, NAME, spoiled, field_manager="somebody")
        assert fleet.first.id not in await fleet.records()
    elsewhere = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": fleet.second.namespace, "labels": {LABEL: fleet.first.id}},
        "data": {"digest": "x", "since": "", "worked": "true"},
    }
    await kube.apply_object(CONFIG_MAP, elsewhere, field_manager="somebody", force=True)
    assert await fleet.records() == {fleet.canary.id: before[fleet.canary.id]}


async def test_record_when_its_time_is_the_last_there_is_then_the_soak_begins_anew_and_waves_go_on(
    fleet: Fixture, kube: KubeClient
) -> None:
    fleet.render(CHANGED)
    await fleet.compare()
    last = {"data": {"since": "9999-12-31T23:59:59Z"}}
    await kube.patch_object(CONFIG_MAP, fleet.canary.namespace, NAME, last, field_manager="somebody")
    await fleet.compare()
    fleet.clock.seconds += SOAK_SECONDS
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, CHANGED, BEFORE]


async def test_manifests_when_the_new_pods_of_the_first_instance_do_not_start_then_they_come_to_no_other(
    fleet: Fixture, kube: KubeClient
) -> None:
    fleet.render(CHANGED)
    await _roll_out(kube, fleet.canary, updated=0)
    for _ in range(3):
        await fleet.compare()
        fleet.clock.seconds += SOAK_SECONDS
    assert await fleet.settings() == [CHANGED, BEFORE, BEFORE]
    assert fleet.told.messages[fleet.first.id] == WAITS + (
        f"{fleet.canary.id}, which is being brought up to its changed ones"
    )
    await _roll_out(kube, fleet.canary, updated=1)
    await fleet.compare()
    fleet.clock.seconds += SOAK_SECONDS
    await fleet.compare()
    assert await fleet.settings() == [CHANGED, CHANGED, BEFORE]


async def _roll_out(kube: KubeClient, instance: FleetInstance, *, updated: int) -> None:
    """What a controller tells of the workload of an instance, of which one pod is ready."""
    live = await kube.get_object(STATEFUL_SET, instance.namespace, CONTROLLER)
    counts = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": updated}
    told = {"status": {"observedGeneration": live["metadata"]["generation"], **counts}}
    await kube.patch_object(
        STATEFUL_SET, instance.namespace, CONTROLLER, told, field_manager="somebody", subresource="status"
    )
