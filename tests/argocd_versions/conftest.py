"""One running stack with two versions of Argo CD, whose agents tell what they count every few seconds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devstack.git.site import site_of
from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from tests.argocd.sources import Source, Sources
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module

VERSIONS = ("--argocd-version", "3.1", "--argocd-version", "3.2")
SOON = (
    *("--set", "HEALTH_INTERVAL_SECONDS=2"),
    *("--set", "HEALTH_REPORT_SECONDS=2"),
    *("--set", "ROLLOUT_INTERVAL=PT0.5S"),
)


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product; the first instance runs 3.1, the second 3.2."""
    with hosted(
        stacks_folder / "versions", "--argocd", *VERSIONS, *UNHURRIED, *SOON, output=stacks_folder / "versions.out"
    ) as running:
        yield running


@pytest.fixture
def source(stack: HostedStack) -> Sources:
    """Makes repositories."""
    return partial(Source.create, site_of(stack.environment))
