"""Package scope ends only with a package: in any other folder pytest keeps a fixture until the last test of all."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_folders_when_their_tests_share_fixtures_then_they_are_packages() -> None:
    sharing = [path.parent for path in TESTS.rglob("conftest.py") if 'scope="package"' in path.read_text()]
    assert sharing
    assert [folder for folder in sharing if not (folder / "__init__.py").exists()] == []
