"""What a program reads of a list that it watches."""

from __future__ import annotations

import json

import pytest

from services.cli.fleet import engine_moves
from services.cli.output import Output, Row
from services.cli.watching import print_changes
from tests.unit.cli.fleet.test_engines import typed


def row(name: str, state: str) -> Row:
    return {"id": name, "state": state}


def read(capsys: pytest.CaptureFixture[str]) -> list[Row]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rows_when_watched_then_each_is_shown_once_and_again_when_it_changes_and_one_that_is_new(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, other = row("one", "ordered"), row("other", "ordered")
    print_changes([[one], [one], [row("one", "done"), other], [other]], Output.JSON)
    assert read(capsys) == [one, row("one", "done"), other]


def test_row_when_it_is_not_listed_then_its_changes_are_shown_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    over, again = row("one", "done"), row("one", "ordered")
    print_changes([[over], [again], [over]], Output.JSON, lambda found: found["state"] != "done")
    assert read(capsys) == [again, over]


def test_row_when_a_tenant_wrote_line_ends_into_it_then_it_is_one_line_still(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hostile = row("one", "a\n{}\u2028\x85b")
    print_changes([[hostile]], Output.JSON)
    assert capsys.readouterr().out.count("\n") == 1


def test_moves_when_watched_by_a_program_then_it_is_told_of_their_end_and_of_none_that_were_over_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def move(name: str, step: str) -> Row:
        return {"id": name, "step": step}

    before = move("before", "done")
    looks = iter([[before, move("one", "adopting")], [before, move("one", "done")]])

    def look(*_: object, over: bool) -> list[Row]:
        assert over
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(engine_moves, "_moves", look)
    monkeypatch.setattr(engine_moves, "LOOK_EVERY_SECONDS", 0)
    told = typed("moves", "--watch", "-o", "json").stdout
    assert [json.loads(line)["step"] for line in told.splitlines()] == ["adopting", "done"]
