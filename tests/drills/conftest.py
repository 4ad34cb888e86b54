"""One running stack, shared by all drills: each loses something of it, and leaves it whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, WATCHFUL, HostedStack, hosted
from devstack.harness.operator import Operator
from tests.drills.claimed_shop import claimed_shop
from tests.e2e.fixtures import *  # noqa: F403 - pytest takes fixtures from the names of this module

__all__ = ["claimed_shop"]

BY_HAND = ("--set", "REMEDIATION=off")
"""A drill is about what operators do, however long that takes."""


@pytest.fixture(scope="package")
def stack(stacks_folder: Path) -> Iterator[HostedStack]:
    """The whole product."""
    options = (*UNHURRIED, *WATCHFUL, *BY_HAND)
    with hosted(stacks_folder / "drills", *options, output=stacks_folder / "drills.out") as running:
        yield running


@pytest.fixture
def operator(stack: HostedStack, tmp_path: Path) -> Operator:
    """Who has lost something, and follows a runbook."""
    return Operator(stack, tmp_path / "backups")
