"""What is typed after ``gitopsctl`` is judged before any command is."""

from __future__ import annotations

import sys

import pytest

from services.cli import __main__ as cli

NO_UTF8 = "caf\udce9"
"""What Python makes of such bytes."""


@pytest.mark.parametrize(
    ("arguments", "before"),
    [
        (["engines", "drain", NO_UTF8], "drain"),
        (["engines", "move", "team-a", "--to", NO_UTF8, "--dry-run"], "--to"),
        (["engines", "orders", f"--subject={NO_UTF8}"], "orders"),
        ([NO_UTF8], "gitopsctl"),
    ],
    ids=["argument", "option", "option with =", "command"],
)
def test_argument_when_it_is_not_utf8_then_one_line_says_which_and_the_exit_code_is_that_of_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], before: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["gitopsctl", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.startswith(f"gitopsctl: error: what follows '{before}' is not UTF-8: '")
    assert r"caf\udce9" in told
    assert told.count("\n") == 1


def test_argument_when_it_has_letters_of_any_language_then_it_is_taken() -> None:
    cli.require_utf8(["gitopsctl", "engines", "drain", "café", "東京"])
