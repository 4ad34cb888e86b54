"""A rebuild that takes longer than promised, or loses a change, is told, and `bench.lost_database` fails."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import typer
from typer.testing import CliRunner

from bench import lost_database
from bench.lost_database import Rebuild, find_failures


@pytest.mark.parametrize(
    ("rebuild", "told"),
    [
        pytest.param(Rebuild(900.0, 0), [], id="in time"),
        pytest.param(Rebuild(901.0, 0), ["it took 901 s, more than 900 s"], id="late"),
        pytest.param(Rebuild(9.0, 2), ["2 changes had no effect"], id="lost"),
        pytest.param(Rebuild(901.0, 1), ["1 changes had no effect", "it took 901 s, more than 900 s"], id="both"),
    ],
)
def test_rebuild_when_it_is_slow_or_loses_changes_then_it_is_told_and_the_command_fails(
    rebuild: Rebuild, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measured(*_: object) -> Rebuild:
        return rebuild

    monkeypatch.setattr(lost_database, "hosted", lambda *_, **__: nullcontext())
    monkeypatch.setattr(lost_database, "measure", measured)
    command = typer.Typer()
    command.command()(lost_database.main)
    assert list(find_failures(rebuild)) == told
    assert CliRunner().invoke(command, []).exit_code == bool(told)
