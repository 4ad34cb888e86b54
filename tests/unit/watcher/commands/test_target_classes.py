"""What commands carry of the class that a resource names, and that a change of the class has them sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from services.common.kubernetes import KubeClient
from services.common.messages import ResourceChanged
from services.kinds.deployment_target_class.rules import named_class
from services.watcher.commands.target_classes import MAX_CLASS_BYTES, TargetClasses, class_content
from services.watcher.followed_kinds import BY_NAME
from tests.unit.common.kubernetes.fake_api_server import FakeApiServer, serving
from tests.unit.watcher.commands.test_feed import feed_of, put, running, until
from tests.unit.watcher.fakes import FakePublisher

CLAIMS = BY_NAME["DeploymentTargetClaim"]
SPEC = {"deploymentTargetClassName": "space"}


class Workspace:
    """Claims at one API server, and classes at what stands for the same one."""

    def __init__(self, claims: FakeApiServer, classes: FakeApiServer, publisher: FakePublisher) -> None:
        self.claims, self.classes, self.publisher = claims, classes, publisher

    async def set_class(self, policy: str, name: str = "space") -> None:
        meta = {"name": name, "uid": f"uid-{name}"}
        await self.classes.put(name, metadata=meta, spec={"provisioner": "example.com/ours", "reclaimPolicy": policy})

    def told(self, name: str = "dev") -> list[str]:
        """The policy that each command of a claim tells, "" if it tells of no class."""
        changes = [each for each in self.publisher.events if isinstance(each, ResourceChanged) and each.name == name]
        classes = [named_class(each.named_class) if each.named_class else None for each in changes]
        return [found.spec.reclaim_policy if found else "" for found in classes]


@asynccontextmanager
async def followed(workspace: Workspace, kube: KubeClient, **parts: Any) -> AsyncIterator[None]:
    async with serving(workspace.classes) as other:
        classes = TargetClasses(other)
        feed = feed_of(CLAIMS, kube, workspace.publisher, classes=classes, **parts)
        classes.observers.append(feed.observe_class)
        following = asyncio.create_task(classes.run())
        try:
            async with running(feed):
                yield
        finally:
            following.cancel()
            await asyncio.wait([following])


@pytest.fixture
def workspace(server: FakeApiServer, publisher: FakePublisher) -> Workspace:
    return Workspace(server, FakeApiServer(), publisher)


async def test_claim_when_its_class_exists_then_its_first_command_tells_of_it(
    workspace: Workspace, kube: KubeClient
) -> None:
    """Classes are listed before anything is sent that names one."""
    await workspace.set_class("Delete")
    await put(workspace.claims, "dev", spec=SPEC)
    async with followed(workspace, kube):
        await until(lambda: bool(workspace.told()))
    assert workspace.told() == ["Delete"]


async def test_class_when_it_comes_changes_and_goes_then_each_claim_of_it_is_sent_again_and_no_other(
    workspace: Workspace, kube: KubeClient
) -> None:
    for name in ("dev", "prod"):
        await put(workspace.claims, name, spec=SPEC)
    await put(workspace.claims, "other", spec={"deploymentTargetClassName": "another"})
    async with followed(workspace, kube):
        await until(lambda: len(workspace.told("prod")) == len(workspace.told("dev")) == 1)
        for number, policy in enumerate(["Delete", "Retain"], 2):
            await workspace.set_class(policy)
            await until(lambda number=number: len(workspace.told("prod")) == len(workspace.told("dev")) == number)
        await workspace.classes.delete("space")
        await until(lambda: len(workspace.told("prod")) == len(workspace.told("dev")) == 4)
    assert workspace.told() == workspace.told("prod") == ["", "Delete", "Retain", ""]
    assert workspace.told("other") == [""]


async def test_class_when_it_is_written_without_a_change_of_what_is_told_then_claims_say_so_once(
    workspace: Workspace, kube: KubeClient
) -> None:
    await workspace.set_class("Delete")
    await put(workspace.claims, "dev", spec=SPEC)
    async with followed(workspace, kube):
        await until(lambda: workspace.told() == ["Delete"])
        await put(workspace.claims, "dev", generation=2, spec=SPEC)
        await until(lambda: workspace.told() == ["Delete", "Delete"])


def test_class_when_it_is_too_long_then_it_counts_as_none() -> None:
    manifest = {"metadata": {"resourceVersion": "7"}, "spec": {"parameters": {"a": "x" * MAX_CLASS_BYTES}}}
    assert class_content(manifest) == ""


@pytest.mark.parametrize("told", ["{}", '{"version":"1","spec":{"reclaimPolicy":"Burn"}}', '{"version":1,"spec":7}'])
def test_class_when_what_is_told_is_not_valid_then_it_is_none(told: str) -> None:
    assert named_class(told) is None


def test_class_when_it_is_told_then_its_version_orders_it() -> None:
    spec = {"provisioner": "example.com/ours", "reclaimPolicy": "Retain"}
    found = named_class(orjson.dumps({"version": "12", "spec": spec}).decode())
    assert found is not None
    assert (found.version, found.spec.reclaim_policy) == (12, "Retain")
