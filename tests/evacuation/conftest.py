"""One running stack of its own, in which an instance that is ill is helped within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module

SOON = {
    "HEALTH_INTERVAL_SECONDS": "0.5",
    "REMEDY_AFTER": "PT1S",
    "REMEDY_COOL_DOWN": "PT5S",
    "RECOVERED_AFTER": "PT2S",
}


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    settings = [each for name, value in SOON.items() for each in ("--set", f"{name}={value}")]
    with hosted(
        stacks_folder / "evacuation", *UNHURRIED, *settings, output=stacks_folder / "evacuation.out"
    ) as running:
        yield running
