"""One running stack with two engine clusters, shared by all tests of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, WATCHFUL, HostedStack, hosted
from devstack.harness.mirror import Mirror, mirrored
from devstack.stack.second_cluster import KUBECONFIG_VARIABLE
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET, Manifest, connect
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module
from tests.e2e.tenant import application_name, find


@dataclass(frozen=True)
class Held:
    """What the API server of one engine cluster holds."""

    applications: Mirror
    projects: Mirror
    secrets: Mirror

    async def objects_of(self, created: Manifest) -> set[str]:
        """Names of what a deployment to an environment needs, once all of it is there."""
        name = application_name(created)
        await self.applications.until(f"{name} is there", lambda objects: find(objects, name) is not None)
        application = find(self.applications.objects, name)
        assert application is not None
        spec = application["spec"]
        needed = {name, spec["project"], spec["destination"]["name"]}
        assert needed <= self.names()
        return needed

    def names(self) -> set[str]:
        """Of all objects."""
        mirrors = (self.applications, self.projects, self.secrets)
        return {name for mirror in mirrors for _, name in mirror.objects}

    async def until_without(self, names: set[str]) -> None:
        """Until it holds none of these."""
        for mirror in (self.applications, self.projects, self.secrets):
            await mirror.until(
                f"none of {sorted(names)} is there",
                lambda objects: names.isdisjoint(name for _, name in objects),
                timeout_seconds=60,
            )


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    folder, output = stacks_folder / "engine-clusters", stacks_folder / "engine-clusters.out"
    with hosted(folder, "--engine-clusters", "2", *UNHURRIED, *WATCHFUL, output=output) as running:
        yield running


@pytest.fixture(scope="package")
def first(applications: Mirror, projects: Mirror, engine_secrets: Mirror) -> Held:
    """Of the first cluster, which the workspace is in, too."""
    return Held(applications, projects, engine_secrets)


@pytest.fixture(scope="package")
async def second(stack: HostedStack) -> AsyncIterator[Held]:
    """Of the second."""
    async with (
        await connect(Path(stack.environment[KUBECONFIG_VARIABLE])) as client,
        mirrored(client, APPLICATION) as applications,
        mirrored(client, APP_PROJECT) as projects,
        mirrored(client, SECRET) as secrets,
    ):
        yield Held(applications, projects, secrets)
