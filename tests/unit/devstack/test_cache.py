"""Folders of the cache are whole or absent, made once, and mended when damaged."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devstack.toolchain.cache import IN_USE_SECONDS, cache_root, forget_older, provide


@pytest.fixture
def builds() -> list[Path]:
    """The folders that were given to the builder."""
    return []


@pytest.fixture
def build(builds: list[Path]) -> Callable[[Path], None]:
    """A builder that writes two files."""

    def build(folder: Path) -> None:
        builds.append(folder)
        (folder / "sub").mkdir()
        (folder / "sub" / "a.jar").write_text("a" * 100)
        (folder / "b.jar").write_text("b")

    return build


def test_folder_when_absent_then_it_is_built_in_place_of_its_name(
    tmp_path: Path, build: Callable[[Path], None]
) -> None:
    folder = provide(tmp_path / "x" / "key", build)
    assert (folder / "sub" / "a.jar").read_text() == "a" * 100


def test_folder_when_present_then_nothing_is_built(
    tmp_path: Path, build: Callable[[Path], None], builds: list[Path]
) -> None:
    for _ in range(3):
        provide(tmp_path / "key", build)
    assert len(builds) == 1


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda file: file.write_text("a" * 99), id="truncated"),
        pytest.param(lambda file: file.write_text("c" * 100), id="overwritten"),
        pytest.param(lambda file: file.unlink(), id="deleted"),
        pytest.param(lambda file: file.with_name("new.jar").touch(), id="one too many"),
    ],
)
def test_folder_when_damaged_then_it_is_built_anew(
    tmp_path: Path, build: Callable[[Path], None], builds: list[Path], damage: Callable[[Path], None]
) -> None:
    folder = provide(tmp_path / "key", build)
    damage(folder / "sub" / "a.jar")
    provide(tmp_path / "key", build)
    assert len(builds) == 2
    assert (folder / "sub" / "a.jar").read_text() == "a" * 100
    assert not (folder / "sub" / "new.jar").exists()


def test_folder_when_its_build_fails_then_nothing_is_left(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("…")
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError):
        provide(tmp_path / "key", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".key.lock"]


def test_folder_when_an_earlier_build_was_killed_then_its_remains_go(
    tmp_path: Path, build: Callable[[Path], None]
) -> None:
    (tmp_path / ".key.abc").mkdir()
    provide(tmp_path / "key", build)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".key.lock", "key"]


def test_folder_when_wanted_by_many_at_once_then_it_is_built_once(
    tmp_path: Path, build: Callable[[Path], None], builds: list[Path]
) -> None:
    threads = [threading.Thread(target=provide, args=(tmp_path / "key", build)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1


@pytest.mark.parametrize(
    ("variable", "expected"), [("/elsewhere", "/elsewhere"), ("", "{home}/.cache"), ("relative", "{home}/.cache")]
)
def test_cache_when_the_user_moved_it_then_it_is_there(
    monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", variable)
    assert cache_root() == Path(expected.format(home=Path.home())) / "gitops-service"


def aged(folder: Path, seconds: float) -> Path:
    """A folder of the cache that was in use so long ago."""
    folder.mkdir()
    os.utime(folder, times=(time.time() - seconds,) * 2)
    return folder


def test_folders_when_there_are_newer_ones_then_as_many_stay_as_are_kept(tmp_path: Path) -> None:
    oldest, old, used = (aged(tmp_path / str(hours), hours * IN_USE_SECONDS) for hours in (4, 3, 5))
    forget_older(used, 2)
    assert {path for path in (oldest, old, used) if path.exists()} == {old, used}


def test_folder_when_somebody_may_be_reading_it_then_it_stays(tmp_path: Path) -> None:
    recent, used = aged(tmp_path / "recent", IN_USE_SECONDS / 2), aged(tmp_path / "used", 0)
    forget_older(used, 1)
    assert recent.exists()
