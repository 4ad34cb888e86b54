"""The tree that people are shown: what it says, and that nobody's words break their terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.console import Console

from devstack.paths import USER_DOCS
from services.cli.describe.application_tree import MOST_BINDINGS, MOST_CHARACTERS, MOST_SHOWN, application_tree
from services.cli.describe.application_view import Listed, application_view
from services.cli.output import WIDE
from tests.unit.cli.describe.resources import SHOP, binding, claim, environment, resource, run

HOSTILE = "\x1b[2J\x9b31m[bold red]gone[/]\r\nsecond\u2028line\u202edesrever\ttab"


def shown(listed: Listed, width: int = WIDE) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(application_tree(application_view("shop", "team-a", listed)))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_tree_when_the_shop_is_being_promoted_then_it_is_as_the_page_shows_it() -> None:
    page = (USER_DOCS / "application-state.md").read_text()
    (block,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert shown(SHOP) == block.splitlines()


def test_tree_when_there_is_no_environment_then_it_says_what_to_do() -> None:
    assert shown(Listed()) == [
        "Application shop in namespace team-a",
        "└── there is no Environment in this namespace; create one",
    ]


def with_bad_component() -> Any:
    manifest = binding("staging", "shop-1", components=("cart",))
    manifest["status"]["gitopsDeployments"][0] |= {"syncStatus": HOSTILE, "health": HOSTILE, "commitID": HOSTILE}
    return manifest


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(Listed(environments=[environment("staging", problem=HOSTILE)]), id="environment-problem"),
        pytest.param(Listed(environments=[environment("staging", HOSTILE)]), id="parent"),
        pytest.param(
            Listed(environments=[environment("staging", claim="c")], claims=[claim("c", "Lost", HOSTILE, HOSTILE)]),
            id="claim",
        ),
        pytest.param(Listed(bindings=[binding(HOSTILE, HOSTILE)]), id="binding"),
        pytest.param(Listed(bindings=[binding("staging", "shop-1", components=(HOSTILE,))]), id="component"),
        pytest.param(Listed(bindings=[with_bad_component()]), id="state-of-a-component"),
        pytest.param(Listed(runs=[run(HOSTILE, HOSTILE, HOSTILE)]), id="run"),
        pytest.param(Listed(environments=[resource("staging", {"displayName": [HOSTILE]})]), id="invalid-spec"),
    ],
)
def test_tree_when_words_are_hostile_then_each_is_one_line_that_a_terminal_does_not_obey(listed: Listed) -> None:
    lines = shown(listed)
    # Each line is one of the tree's own: no word has begun another one.
    assert all(re.match(r"Application|[│ ]*[├└]── ", line) for line in lines)
    assert all(character.isprintable() for line in lines for character in line)


def test_tree_when_words_have_markup_then_it_is_shown_as_it_was_written() -> None:
    lines = shown(Listed(environments=[environment("staging", problem="[red]cart[/red] failed")]))
    assert any(line.endswith("problem: [red]cart[/red] failed") for line in lines)


def test_tree_when_a_message_is_long_then_it_is_cut() -> None:
    lines = shown(Listed(environments=[environment("staging", problem="x" * 30_000)]), width=40_000)
    assert lines[2].endswith("x" * 100 + "…")
    assert len(lines[2]) < MOST_CHARACTERS + 50


def test_tree_when_there_are_ten_thousand_of_everything_then_the_first_are_shown_and_the_others_counted() -> None:
    many = range(10_000)
    components = tuple(f"c{n}" for n in range(250))
    lines = shown(
        Listed(
            environments=[environment(f"e{n:05}", f"e{n - 1:05}" if n else "") for n in many],
            bindings=[binding("e00000", "s", components=components if n < MOST_BINDINGS else ()) for n in many],
            runs=[run(f"r{n:05}", "s", "e00000") for n in many],
            claims=[claim(f"c{n}", "Bound") for n in many],
        )
    )
    assert any(f"and {10_000 - MOST_SHOWN} environments more: -o json shows them" in line for line in lines)
    assert any(f"and {10_000 - MOST_BINDINGS} bindings more" in line for line in lines)
    assert sum(f"and {250 - MOST_SHOWN} components more" in line for line in lines) == MOST_BINDINGS
    assert f"and {10_000 - MOST_SHOWN} promotions more" in lines[-1]
    assert len(lines) < 500


@pytest.mark.parametrize("width", [20, 80])
def test_tree_when_the_terminal_is_narrow_then_no_line_is_wider(width: int) -> None:
    assert all(len(line) <= width for line in shown(SHOP, width))
