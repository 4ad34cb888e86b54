"""A stack with two planners and two watchers, and a proxy in each hop, shared by all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.run import stack_options
from devstack.harness.hosted import UNHURRIED, WATCHFUL, HostedStack, hosted
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product, twice."""
    options = (*stack_options(), *UNHURRIED, *WATCHFUL)
    with hosted(stacks_folder / "chaos", *options, output=stacks_folder / "chaos.out") as running:
        yield running
