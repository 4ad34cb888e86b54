"""An image says which commit it is of, and whether it is more than that."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.commands.containers import revision
from devstack.toolchain.processes import output_of


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With one commit."""
    (tmp_path / "file").write_text("committed")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=any", "-c", "user.email=any@example.com")
    for words in (("init", "--quiet"), ("add", "file"), ("commit", "--quiet", "--message", "any")):
        output_of(*git, *words)
    return tmp_path


def test_revision_when_nothing_is_changed_then_it_is_the_commit(checkout: Path) -> None:
    assert revision(checkout) == output_of("git", "-C", str(checkout), "rev-parse", "HEAD").strip()


@pytest.mark.parametrize("name", ["file", "another"])
def test_revision_when_a_file_is_changed_or_new_then_it_says_so(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed")
    assert revision(checkout).endswith("-dirty")
