"""docs/operations/canary.md, typed where a kubelet runs what it brings, and taken back, while a tenant goes on.

Both releases are of one revision of the database.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from devstack.harness.hosted import HostedStack
from devstack.paths import DOCS
from services.common.kubernetes import KubeClient
from tests.component.k8s.readme import carry_out, commands
from tests.e2e.tenant import Tenant
from tests.node.kubectl import Kubectl, is_ready, until
from tests.node.load import SERVICES, going_on, our_pods
from tests.node.releases import NEXT, REPOSITORY
from tests.node.upgrade import AFTER, BEFORE, images, overlay_of, rolled_out

PAGE = (DOCS / "operations" / "canary.md").read_text()
OLD, NEW, ONE_IS_NEW = {BEFORE: 2}, {AFTER: 2}, {BEFORE: 2, AFTER: 1}
STEPS = {
    "A planner": {"planner": ONE_IS_NEW, "agent": OLD, "watcher": OLD},
    "An agent": {"planner": NEW, "agent": ONE_IS_NEW, "watcher": OLD},
    "A watcher": {"planner": NEW, "agent": NEW, "watcher": ONE_IS_NEW},
    "Back": dict.fromkeys(SERVICES, OLD),
}
"""Ready pods by their image, of each service, after the commands of a section."""
NO_DIGEST = "sha256:of-an-image-that-no-registry-has"


@pytest.fixture
def overlay(stack: HostedStack, tmp_path: Path) -> Path:
    """Of what runs; the node has the next release's image, too."""
    overlay = overlay_of(NEXT, stack, tmp_path)
    running = overlay / "release" / "kustomization.yaml"
    running.write_text(running.read_text().replace(f"newTag: {NEXT.tag}", f"newTag: {BEFORE.rpartition(':')[2]}"))
    return overlay


@pytest.fixture
def environment(stack: HostedStack, overlay: Path, kubectl: Kubectl) -> Mapping[str, str]:
    """Where commands are typed, and with what, once the page's first ones have been."""
    found = {**stack.environment, "O": str(overlay), "IMAGE": REPOSITORY, "DIGEST": NO_DIGEST}
    for command in commands("Prepare", PAGE):
        carry_out(command, overlay.parent, found, kubectl.program)
    image = overlay.with_name(f"{overlay.name}-canary") / "release" / "image.yaml"
    image.write_text(image.read_text().replace(f"digest: {NO_DIGEST}", f"newTag: {NEXT.tag}"))
    return found


def are_ready(kubectl: Kubectl, expected: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether those pods are ready that are expected, of each service by their images, and no others."""
    return all(
        Counter(image for pod in kubectl.pods_of(name) if is_ready(pod) for image in images([pod])) == of_images
        for name, of_images in expected.items()
    )


async def test_canary_when_each_step_is_typed_then_one_pod_of_its_service_is_new_and_nothing_is_lost(
    overlay: Path, environment: Mapping[str, str], tenant: Tenant, kube: KubeClient, kubectl: Kubectl
) -> None:
    async with going_on(tenant, kube) as load:
        for section, expected in STEPS.items():
            for command in commands(section, PAGE):
                await asyncio.to_thread(carry_out, command, overlay.parent, environment, kubectl.program)
            await until(f"pods are as after '{section}'", partial(are_ready, kubectl, expected))
        await rolled_out(kubectl)
    assert images(our_pods(kubectl)) == {BEFORE}
    assert load.fewest == dict.fromkeys(SERVICES, 2)
