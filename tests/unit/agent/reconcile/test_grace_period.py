"""A cluster secret and the Applications that go to its cluster, told to go in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from services.agent.objects.live import EngineObjects
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.reconcile.secret_applier import GRACE_PERIOD
from services.common.messages import EngineResource
from tests.unit.agent.driver import Driver
from tests.unit.agent.rows import application_row, cluster_row

CLUSTER = cluster_row()
FINALIZER = "resources-finalizer.argocd.argoproj.io/background"


def going_there(desired: str = "present") -> EngineResource:
    row = application_row("app", lane=CLUSTER.lane)
    return replace(row, desired=desired, manifest=row.manifest.replace("in-cluster", CLUSTER.name))


async def test_cluster_secret_when_its_applications_are_told_to_go_after_it_then_it_goes_after_them(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(CLUSTER, going_there())
    await driver.apply(cluster_row(desired="absent"))
    assert driver.cluster.names("Secret") == [CLUSTER.name]
    driver.cluster.edit("Application", "app", {"metadata": {"finalizers": ["busy"]}})
    await driver.apply(going_there("absent"))
    await driver.clock.advance(GRACE_PERIOD.total_seconds() + 1)
    assert (driver.cluster.names("Application"), driver.cluster.names("Secret")) == (["app"], [CLUSTER.name])
    driver.cluster.remove("Application", "app")
    await driver.clock.advance(1)
    assert (driver.cluster.names("Application"), driver.cluster.names("Secret")) == ([], [])


async def test_cluster_secret_when_its_applications_are_to_stay_then_it_goes_when_the_notice_ends(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(CLUSTER, going_there())
    await driver.apply(cluster_row(desired="absent"))
    await driver.clock.advance(GRACE_PERIOD.total_seconds() - 1)
    assert driver.cluster.names("Secret") == [CLUSTER.name]
    await driver.clock.advance(2)
    assert driver.cluster.names("Secret") == []


async def test_cluster_secret_when_no_application_goes_to_its_cluster_then_it_goes_at_once(driver: Driver) -> None:
    await driver.begin()
    await driver.apply(CLUSTER, application_row("app", lane=CLUSTER.lane))
    await driver.apply(cluster_row(desired="absent"))
    assert driver.cluster.names("Secret") == []


async def test_cluster_secret_when_wanted_again_within_the_notice_then_the_next_notice_is_a_whole_one(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(CLUSTER, going_there())
    await driver.apply(cluster_row(desired="absent"))
    await driver.clock.advance(GRACE_PERIOD.total_seconds() - 1)
    await driver.apply(CLUSTER)
    await driver.apply(cluster_row(desired="absent"))
    await driver.clock.advance(GRACE_PERIOD.total_seconds() - 1)
    assert driver.cluster.names("Secret") == [CLUSTER.name]


async def test_cluster_secrets_when_they_go_then_nobody_looks_through_all_objects_for_each(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.begin()
    await driver.apply(CLUSTER, going_there(), cluster_row("unused"))
    scans: list[EngineObjects] = []

    def scanned(objects: EngineObjects) -> Iterator[ObjectKey]:
        scans.append(objects)
        return iter([key for store in objects.stores.values() for key in store])

    monkeypatch.setattr(EngineObjects, "__iter__", scanned)
    await driver.apply(cluster_row(desired="absent"), cluster_row("unused", desired="absent"))
    assert (driver.cluster.names("Secret"), scans) == ([CLUSTER.name], [])


async def test_cluster_secret_when_its_application_moved_to_another_cluster_then_it_goes_at_once(
    driver: Driver,
) -> None:
    await driver.begin()
    await driver.apply(CLUSTER, going_there())
    await driver.apply(application_row("app", lane=CLUSTER.lane))
    await driver.apply(cluster_row(desired="absent"))
    assert driver.cluster.names("Secret") == []
