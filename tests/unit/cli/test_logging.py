"""What is logged while a command runs is no part of what it prints for programs."""

from __future__ import annotations

import sys

import pytest
import structlog

from services.cli import __main__ as cli


def test_line_when_logged_during_a_command_then_it_goes_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        structlog.get_logger("any").warning("kafka", error="Connect refused")

    monkeypatch.setattr(sys, "argv", ["gitopsctl"])
    monkeypatch.setattr(cli, "app", command)
    cli.main()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Connect refused" in printed.err
