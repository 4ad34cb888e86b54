"""What README.md tells a user to type with Docker, typed: each command in order, nothing else, with real Argo CD."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from devstack.paths import ROOT
from devstack.toolchain import install as toolchain
from devstack.toolchain.progress_bar import reporter
from tests.component.k8s.readme import commands
from tests.containers.conftest import compose, left_over

README = (ROOT / "README.md").read_text()
TELL_TIME = "date +@%s >&2"
SHOWN = re.findall(r"^```\n(NAME .*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def kubectl() -> Path:
    """Folder of what a user has."""
    with reporter(Console()) as report:
        return toolchain.kubectl(report)


@pytest.fixture
def _tidy(image: str) -> Iterator[None]:
    """Nothing of a test that failed is left to the next."""
    yield
    (ROOT / "kubeconfig").unlink(missing_ok=True)
    compose("--profile", "argocd", "down", "--volumes", "--timeout", "5")


@pytest.mark.usefixtures("_tidy")
def test_commands_when_all_are_typed_then_a_repository_is_deployed_as_shown_and_nothing_is_left(
    kubectl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = os.environ | {"PATH": f"{kubectl}:{os.environ['PATH']}"}
    typed = commands("With Docker", README)
    script = "\n".join(["set -e", TELL_TIME, *(f"{command}\n{TELL_TIME}" for command in typed)])
    outcome = subprocess.run(
        ["/bin/sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    (shown,) = SHOWN
    assert headings_and_names(shown) <= headings_and_names(outcome.stdout)
    assert left_over() == ""
    with capsys.disabled():
        for command, seconds in zip(typed, seconds_between(outcome.stderr), strict=True):
            sys.stdout.write(f"\n{seconds:4} s  {command}")


def seconds_between(told: str) -> list[int]:
    """What each command took, by the times told before and after it."""
    times = [int(time) for time in re.findall(r"^@(\d+)$", told, re.MULTILINE)]
    return [later - earlier for earlier, later in pairwise(times)]


def headings_and_names(printed: str) -> set[tuple[str, ...]]:
    """The first words of each line, which are the same each time: later ones are ids and ages."""
    return {tuple(line.split()[:2]) for line in printed.splitlines() if line}
