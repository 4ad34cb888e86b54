"""Before a Docker engine is started, what it takes is there, is installed, or is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from devstack.containers import base_images, engine
from devstack.toolchain.cache import cache_root
from devstack.toolchain.install import Toolchain
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


def test_programs_when_their_packages_cannot_be_had_then_one_line_says_which_and_why(
    installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: Sequence[str], _: object) -> None:
        raise Unavailable(f"{command[0]} … failed: Reading package lists...\nE: no network")

    monkeypatch.setattr(engine, "run_checked", fail)
    installed |= {*engine.PACKAGES, "apt-get"} - {"debootstrap"}
    with pytest.raises(Unavailable) as raised:
        engine.require_programs()
    assert str(raised.value) == "a Docker engine needs debootstrap, which cannot be installed: E: no network"


def test_programs_when_all_are_there_then_nothing_is_run(installed: set[str], ran: list[Sequence[str]]) -> None:
    installed.update(engine.PACKAGES)
    engine.require_programs()
    assert ran == []


IMPORTED = ["docker", "import"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Sequence[str]]:
    """Commands that make base images. The engine has an image of the label that the last import gave it."""
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], environment: object = None) -> str:
        commands.append(command)
        labels = [word.removeprefix("LABEL ") for word in command if word.startswith("LABEL ")]
        if labels:
            held[command[-1]] = labels[0]
        return "id\n" if f"label={held.get(command[-1])}" in command else ""

    held: dict[str, str] = {}
    monkeypatch.setattr(base_images, "run_checked", run)
    monkeypatch.setattr(base_images, "provide", lambda folder, _: folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return commands


def tools(kubernetes: str) -> Toolchain:
    folders = dict.fromkeys(Toolchain.__annotations__, cache_root() / "maven" / "kafka-1" / "kafka")
    return Toolchain(**folders | {"kubernetes": cache_root() / "kubernetes" / kubernetes})  # type: ignore[arg-type]


def test_base_images_when_the_engine_has_them_then_none_is_imported_again(asked: list[Sequence[str]]) -> None:
    base_images.make({}, tools("key-1"))
    assert [command[-1] for command in asked if command[:2] == IMPORTED] == [base_images.PYTHON, base_images.TOOLCHAIN]
    asked.clear()
    base_images.make({}, tools("key-1"))
    assert [command for command in asked if command[:2] == IMPORTED] == []


def test_base_image_when_what_is_in_it_has_changed_then_it_alone_is_imported_again(asked: list[Sequence[str]]) -> None:
    base_images.make({}, tools("key-1"))
    asked.clear()
    base_images.make({}, tools("key-2"))
    assert [command[-1] for command in asked if command[:2] == IMPORTED] == [base_images.TOOLCHAIN]
