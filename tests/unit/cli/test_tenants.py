"""Operators are told which tenants are parked, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from services.cli import tenants

AT = datetime(2026, 5, 4, 12, tzinfo=UTC)


def listed(monkeypatch: pytest.MonkeyPatch, *rows: tuple[str, datetime, str, int]) -> str:
    monkeypatch.setattr(tenants, "parked_tenants", lambda _: list(rows))
    result = CliRunner().invoke(tenants.app, ["parked"], env={"DATABASE_OWNER_URL": "postgresql://x"})
    assert result.exit_code == 0, result.output
    return result.output


def test_parked_when_there_are_some_then_the_error_and_the_remedy_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = listed(monkeypatch, ("local/team-a", AT, "KeyError at domain/plan.py:7", 3))
    assert "local/team-a: since 2026-05-04 12:00:00, 3 events kept, KeyError at domain/plan.py:7" in told
    assert "roll out a planner" in told


def test_parked_when_there_are_none_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(monkeypatch) == "no tenant is parked\n"
