"""What a program reads of a list that it watches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import pytest
from rich.console import Console, RenderableType

from services.cli.fleet import engine_moves, engine_rollouts
from services.cli.output import Output, Row
from services.cli.watching import print_changes, show_screens
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


def test_screens_when_there_is_no_terminal_then_each_that_differs_is_printed_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    read: list[str] = []

    def looks() -> Iterator[str]:
        for screen in ("one", "one", "other"):
            yield screen
            read.append(capsys.readouterr().out)

    show_screens(looks())
    assert read == ["one\n\n", "", "other\n\n"]


def test_moves_when_they_are_more_than_the_terminal_has_lines_then_those_that_have_begun_are_on_it() -> None:
    rows = [
        {**dict.fromkeys(engine_moves.COLUMNS, ""), "step": step, "namespace": f"{step}-{n}"}
        for step in ("done", "ordered", "releasing")
        for n in range(3)
    ]
    terminal = Console(width=80, height=7, force_terminal=True, color_system=None)
    with terminal.capture() as captured:
        terminal.print(engine_moves.screen(rows))
    _, *lines, rest = captured.get().splitlines()
    assert [line.split()[1] for line in lines] == [
        "releasing-0", "releasing-1", "releasing-2", "ordered-0", "ordered-1",
    ]  # fmt: skip
    assert rest == "and 4 more"


@pytest.mark.parametrize(
    ("screen", "told"),
    [
        (engine_moves.screen, "no tenant is being moved\n"),
        (engine_rollouts.screen, "no rollout has been ordered\n"),
    ],
)
def test_screen_when_there_is_nothing_to_show_then_that_is_told_and_no_bare_headings(
    screen: Callable[[Sequence[Row]], RenderableType], told: str
) -> None:
    shown = Console(width=80)
    with shown.capture() as captured:
        shown.print(screen([]))
    assert captured.get() == told
