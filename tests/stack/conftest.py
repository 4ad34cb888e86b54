"""Stacks for the tests of the local stack itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from devstack.supervisor.child import family_of
from tests.stack.small import Gitopsctl, await_gone, command


@pytest.fixture(scope="package")
def infrastructure(stacks_folder: Path) -> Iterator[HostedStack]:
    """Everything but our services, shared by all tests that do not end it; it must leave no process behind."""
    with hosted(stacks_folder / "stack", "--infra", *UNHURRIED, output=stacks_folder / "stack.out") as stack:
        family = {pid: began for top in stack.pids().values() for pid, began in family_of(top).items()}
        yield stack
    assert await_gone(family) == []


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A folder for a stack, too deep for the address of a Unix socket."""
    return tmp_path / ("deep" * 15) / "state"


@pytest.fixture
def gitopsctl(state: Path) -> Gitopsctl:
    """``gitopsctl dev`` on ``state``."""

    def run(*arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, *command(*arguments)],
            env=os.environ | {"GITOPS_STATE": str(state)},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return run
