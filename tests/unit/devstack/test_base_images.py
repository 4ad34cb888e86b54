"""What a Docker engine is given: images that stand in for the public ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from devstack.containers import base_images
from devstack.toolchain.cache import cache_root
from devstack.toolchain.install import Toolchain

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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return commands


def tools(kubernetes: str) -> Toolchain:
    folders = dict.fromkeys(Toolchain.__annotations__, cache_root() / "maven" / "kafka-1" / "kafka")
    return Toolchain(**folders | {"kubernetes": cache_root() / "kubernetes" / kubernetes})  # type: ignore[arg-type]


def test_base_images_when_the_engine_has_them_then_none_is_imported_again(asked: list[Sequence[str]]) -> None:
    base_images.make({}, tools("key-1"), Path("debian-1"))
    assert [command[-1] for command in asked if command[:2] == IMPORTED] == [base_images.PYTHON, base_images.TOOLCHAIN]
    asked.clear()
    base_images.make({}, tools("key-1"), Path("debian-1"))
    assert [command for command in asked if command[:2] == IMPORTED] == []


def test_base_image_when_what_is_in_it_has_changed_then_it_alone_is_imported_again(asked: list[Sequence[str]]) -> None:
    base_images.make({}, tools("key-1"), Path("debian-1"))
    asked.clear()
    base_images.make({}, tools("key-2"), Path("debian-1"))
    assert [command[-1] for command in asked if command[:2] == IMPORTED] == [base_images.TOOLCHAIN]
