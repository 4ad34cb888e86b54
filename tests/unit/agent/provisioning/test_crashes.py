"""A provisioner that ends before any one of its calls, and another that follows: the installation is as it has to be.

The calls are not listed here: every one to the API server counts, so a step that is added to the code is stopped at
without a new test.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from services.agent.objects.fleet import Fleet
from services.agent.observe.observation_sink import ObservationSink
from services.agent.provisioning.installation import Renderings, rendering
from services.agent.provisioning.installer import MADE_ANEW, Installer
from services.agent.provisioning.provisioner import Provisioner
from services.agent.provisioning.records import NAME as RECORD
from services.common.kubernetes import NAMESPACE, ApiResource, KubeClient, Manifest, NotFound
from services.common.kubernetes.client import Page
from tests.unit.agent.instances_of_fleet import HERE, instance_row
from tests.unit.agent.provisioning.renderings import bring_up, rendered, write
from tests.unit.fake_clock import FakeClock

START = datetime(2026, 5, 4, 12, tzinfo=UTC)
ONE = instance_row("one", namespace="argocd-one", wanted_version="3.2.11")
ANEW = frozenset(each.kind for each in MADE_ANEW)
Key = tuple[str, str | None, str]


class Crash(BaseException):
    """The process ends here. No ``except Exception`` goes on after it."""


@dataclass
class Cluster:
    """What an API server does with an installation, as far as that asks; a second passes with each call."""

    objects: dict[Key, Manifest] = field(default_factory=dict)
    calls: int = 0
    fatal: int = -1
    """Before which call the process ends."""

    def _called(self) -> None:
        self.calls += 1
        if self.calls == self.fatal:
            raise Crash

    async def get_object(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest:
        self._called()
        try:
            return self.objects[resource.kind, namespace, name]
        except KeyError:
            raise NotFound(name) from None

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        selector: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> AsyncIterator[Page]:
        self._called()
        wanted = fields.removeprefix("metadata.name=")
        found = [
            each
            for (kind, home, name), each in self.objects.items()
            if kind == resource.kind and namespace in (None, home) and wanted in ("", name)
        ]
        yield Page([each for each in found if _is_selected(each["metadata"].get("labels", {}), selector)], "1")

    async def create_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> None:
        await self.apply_object(resource, manifest, field_manager=field_manager)

    async def apply_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> None:
        self._called()
        given = manifest["metadata"]
        key = (resource.kind, given.get("namespace"), given["name"])
        made = {"uid": f"uid-{self.calls}", "creationTimestamp": (START + timedelta(seconds=self.calls)).isoformat()}
        known = self.objects[key]["metadata"] if key in self.objects else made
        kept = {name: known[name] for name in made}
        self.objects[key] = copy.deepcopy({**manifest, "metadata": {**given, **kept}})

    async def delete_object(self, resource: ApiResource, namespace: str | None, name: str, *, uid: str) -> None:
        self._called()
        assert self.objects[resource.kind, namespace, name]["metadata"]["uid"] == uid
        del self.objects[resource.kind, namespace, name]
        if resource is NAMESPACE:
            self.objects = {key: each for key, each in self.objects.items() if key[1] != name}

    def contents(self) -> dict[Key, Any]:
        """What there is, less when it was made."""
        return {key: {**each, "metadata": _asked(each["metadata"])} for key, each in self.objects.items()}


def _is_selected(labels: dict[str, str], selector: str) -> bool:
    label, equals, value = selector.partition("=")
    return not label or (labels.get(label) == value if equals else label in labels)


def _asked(metadata: Manifest) -> Manifest:
    return {name: value for name, value in metadata.items() if name not in {"uid", "creationTimestamp"}}


Act = Callable[[Installer, Cluster], Awaitable[object]]


async def install(installer: Installer, cluster: Cluster) -> None:
    await bring_up(installer, ONE)


async def bring_other_version(installer: Installer, cluster: Cluster) -> None:
    """Which has no config map."""
    await bring_up(installer, replace(ONE, wanted_version="3.1.16"))


async def apply_anew(installer: Installer, cluster: Cluster) -> None:
    """All that was made before is to be made anew, and what has been since is not."""
    await bring_up(installer, replace(ONE, reapply_ordered_at=START + timedelta(seconds=ORDERED)))


async def remove(installer: Installer, cluster: Cluster) -> None:
    while not await installer.remove(ONE):
        pass


ORDERED = 100
"""The second of the order: later than anything that is there by then."""


@pytest.fixture
def renderings(tmp_path: Path) -> Renderings:
    write(tmp_path, "3.2.11", rendered("3.2.11"))
    write(tmp_path, "3.1.16", [each for each in rendered("3.1.16") if each["kind"] != "ConfigMap"])
    return Renderings(tmp_path)


async def lived(renderings: Renderings, act: Act, fatal: int) -> tuple[Cluster, int]:
    """The cluster after ``act`` on an installation, and the calls that took; the first process ends at ``fatal``."""
    cluster = Cluster()
    if act is not install:
        await bring_up(Installer(cast("KubeClient", cluster), renderings), ONE)
    cluster.calls = ORDERED
    cluster.fatal = ORDERED + fatal
    try:
        await act(Installer(cast("KubeClient", cluster), renderings), cluster)
    except Crash:
        await act(Installer(cast("KubeClient", cluster), renderings), cluster)
    return cluster, cluster.calls - ORDERED


@pytest.mark.parametrize("act", [install, bring_other_version, apply_anew, remove])
async def test_provisioner_when_it_ends_before_any_one_of_its_calls_then_its_successor_ends_where_it_would_have(
    renderings: Renderings, act: Act
) -> None:
    expected, calls = await lived(renderings, act, fatal=-1000)
    assert calls > 2, "the calls are not seen any more"
    assert bool(expected.objects) == (act is not remove)
    for fatal in range(1, calls + 1):
        found, _ = await lived(renderings, act, fatal)
        assert found.contents() == expected.contents(), f"before call {fatal} of {calls}"


async def test_configuration_when_a_provisioner_ends_while_it_applies_it_anew_then_each_object_is_made_anew_once(
    renderings: Renderings,
) -> None:
    _, calls = await lived(renderings, apply_anew, fatal=-1000)
    for fatal in range(1, calls + 1):
        found, _ = await lived(renderings, apply_anew, fatal)
        made = {key: int(each["metadata"]["uid"].removeprefix("uid-")) for key, each in found.objects.items()}
        assert {key[0] for key, call in made.items() if call > ORDERED} == {key[0] for key in made if key[0] in ANEW}


SOAK_SECONDS = 300.0
CHANGED = {"installationID": "changed"}
FLEET = [
    instance_row(each, namespace=f"argocd-{each}", ring=ring, wanted_version="3.2.11", health="Healthy")
    for each, ring in (("c1", "canary"), ("g1", "general"), ("g2", "general"), ("g3", "general"))
]


class NoReports:
    """Nobody is told anything."""

    def send_report(self, *_: object) -> None:
        """Nothing."""


async def compare(cluster: Cluster, renderings: Renderings, clock: FakeClock) -> None:
    """What a provisioner does that has just been started."""
    provisioner = Provisioner(
        Fleet(HERE, FLEET),
        Installer(cast("KubeClient", cluster), renderings),
        cast("ObservationSink", NoReports()),
        clock,
        interval_seconds=30,
        soak_seconds=SOAK_SECONDS,
    )
    await provisioner.compare_all()


def changed(cluster: Cluster) -> set[str]:
    """Instances that have the changed setting."""
    found = {each.id: cluster.objects["ConfigMap", each.namespace, "argocd-cm"]["data"] for each in FLEET}
    return {name for name, data in found.items() if data == CHANGED}


def recorded(cluster: Cluster) -> set[str]:
    """Instances whose record is of other manifests than those that all had first."""
    digests = {each.id: cluster.objects["ConfigMap", each.namespace, RECORD]["data"]["digest"] for each in FLEET}
    return {name for name, digest in digests.items() if digest != rendering(rendered("3.2.11"), FLEET[0]).digest}


async def before_wave(folder: Path, number: int) -> tuple[Cluster, FakeClock, Renderings]:
    """When manifests that have changed are about to come to the next instances."""
    cluster, clock, renderings = Cluster(), FakeClock(), Renderings(folder)
    write(folder, "3.2.11", rendered("3.2.11"))
    await compare(cluster, renderings, clock)
    write(folder, "3.2.11", [_with_change(each) for each in rendered("3.2.11")])
    for _ in range(number):
        clock.seconds += SOAK_SECONDS
        await compare(cluster, renderings, clock)
    clock.seconds += SOAK_SECONDS
    return cluster, clock, renderings


def _with_change(manifest: Manifest) -> Manifest:
    return manifest | {"data": CHANGED} if manifest["kind"] == "ConfigMap" else manifest


WAVES = [{"c1"}, {"c1", "g1"}, {"c1", "g1", "g2", "g3"}]
"""Who has what has changed after each."""


@pytest.mark.parametrize("number", range(len(WAVES)))
async def test_wave_when_a_provisioner_ends_before_any_one_of_its_calls_then_its_successor_goes_on_and_not_beyond_it(
    tmp_path: Path, number: int
) -> None:
    before, clock, renderings = await before_wave(tmp_path, number)
    expected = copy.deepcopy(before)
    await compare(expected, renderings, clock)
    assert changed(expected) == WAVES[number]
    calls = expected.calls - before.calls
    for fatal in range(1, calls + 1):
        cluster, later = copy.deepcopy(before), FakeClock()
        later.seconds = clock.seconds
        cluster.fatal = cluster.calls + fatal
        with pytest.raises(Crash):
            await compare(cluster, renderings, later)
        assert changed(cluster) <= recorded(cluster), f"before call {fatal} of {calls}: nobody knows that it has begun"
        await compare(cluster, renderings, later)
        after = changed(cluster)
        assert after == recorded(cluster), f"before call {fatal} of {calls}: it is left half changed"
        assert after <= WAVES[number], f"before call {fatal} of {calls}"
        if after != WAVES[number]:  # the rest of the wave comes after those
            later.seconds += SOAK_SECONDS
            await compare(cluster, renderings, later)
        assert changed(cluster) == WAVES[number], f"before call {fatal} of {calls}"
