"""Before a Docker engine is started, what it takes is there, is installed, or is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import pytest

from devstack.containers import engine
from services.common.errors import Unavailable


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Programs that the machine has; to be filled."""
    programs: set[str] = set()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
    return programs


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Commands that were run."""
    commands: list[Sequence[str]] = []
    monkeypatch.setattr(engine, "run_checked", lambda command, _: commands.append(command))
    return commands


def test_engine_when_asked_for_by_another_than_root_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match="run this as root"):
        engine.require_programs()


def test_programs_when_they_are_missing_and_cannot_be_installed_then_their_packages_are_named(
    installed: set[str],
) -> None:
    installed |= {"ip", "iptables"}
    with pytest.raises(Unavailable, match=r"needs debootstrap, docker\.io \("):
        engine.require_programs()


def test_programs_when_they_are_missing_then_these_alone_are_installed(
    installed: set[str], ran: list[Sequence[str]]
) -> None:
    installed |= {"ip", "iptables", "docker", "debootstrap", "apt-get"}
    engine.require_programs()
    assert [command[1] for command in ran] == ["update", "install"]
    assert [word for word in ran[1][2:] if not word.startswith("-")] == ["docker.io"]


def test_programs_when_all_are_there_then_nothing_is_run(installed: set[str], ran: list[Sequence[str]]) -> None:
    installed.update(engine.PACKAGES)
    engine.require_programs()
    assert ran == []
