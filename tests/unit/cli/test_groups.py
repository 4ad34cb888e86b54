"""``gitopsctl`` has the operators' commands, and in a checkout the developers' too."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.commands import GROUPS as DEVELOPERS
from services.cli import __main__ as cli


def test_groups_when_in_a_checkout_then_developers_have_theirs_beside_the_operators() -> None:
    assert cli.groups() == DEVELOPERS | cli.GROUPS
    assert DEVELOPERS.keys().isdisjoint(cli.GROUPS)


def test_groups_when_there_is_no_checkout_then_only_the_operators_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "GROUPS_OF_CHECKOUT", "nowhere.commands")
    assert cli.groups() == cli.GROUPS


def test_groups_when_the_developers_do_not_import_then_the_error_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("import nothing_of_that_name")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cli, "GROUPS_OF_CHECKOUT", "broken.commands")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        cli.groups()
