"""The state of an application as a tree for a terminal.

Most of its words were written by tenants: each becomes one line without anything that a terminal obeys, and of long
lists the first entries are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from rich.text import Text
from rich.tree import Tree

from services.cli.describe.views import (
    ApplicationView,
    BindingView,
    ClaimView,
    ComponentView,
    EnvironmentView,
    PromotionView,
    StepView,
)

ItemT = TypeVar("ItemT")

MOST_SHOWN = 50
"""Of one list."""
MOST_BINDINGS = 3
"""Of one environment: more than one is a mistake."""
MOST_CHARACTERS = 500
"""Of one text."""
COMMIT_CHARACTERS = 12
"""Of a commit: as many as tell it apart."""
NAME_COLUMN = 30
"""How far the states of components are to the right at most."""
SYNC_COLUMN, HEALTH_COLUMN = len("OutOfSync"), len("Progressing")

SYNC_COLOURS: Mapping[str, str] = {"Synced": "green", "OutOfSync": "yellow"}
HEALTH_COLOURS: Mapping[str, str] = {"Healthy": "green", "Progressing": "cyan", "Degraded": "red", "Missing": "yellow"}
PHASE_COLOURS: Mapping[str, str] = {"Bound": "green", "Pending": "yellow", "Lost": "red"}
STATE_COLOURS: Mapping[str, str] = {
    "Active": "cyan",
    "Waiting": "yellow",
    "In Progress": "cyan",
    "Success": "green",
    "Failed": "red",
}
"""Of other words: none."""
PROBLEM = "red"
QUIET = "dim"


def application_tree(view: ApplicationView) -> Tree:
    """All of ``view``, as far as it has room."""
    tree = Tree(Text.assemble("Application ", (_line(view.name), "bold"), f" in namespace {_line(view.namespace)}"))
    if not view.environments:
        tree.add(Text("there is no Environment in this namespace; create one", QUIET))
    _add_all(tree, view.environments, _add_environment, "environments")
    if view.promotions:
        _add_all(tree.add(Text("open promotions", "bold")), view.promotions, _add_promotion, "promotions")
    return tree


def _add_environment(tree: Tree, view: EnvironmentView) -> None:
    after = f"after {_line(view.parent)}" if view.parent else ""
    details = ", ".join(filter(None, (_line(view.strategy), after)))
    branch = tree.add(Text.assemble((_line(view.name), "bold"), (f" ({details})" if details else "", QUIET)))
    for problem in view.problems:
        _add_problem(branch, problem)
    if view.claim is not None:
        _add_claim(branch, view.claim)
    if not view.bindings:
        branch.add(Text("nothing of this application", QUIET))
    _add_all(branch, view.bindings, _add_binding, "bindings", MOST_BINDINGS)


def _add_claim(tree: Tree, view: ClaimView) -> None:
    words = [Text(f"claim {_line(view.name)}: ")]
    if not view.problem or view.phase:
        words.append(_coloured(view.phase or "not seen yet", PHASE_COLOURS))
    if view.target:
        words.append(Text(f", target {_line(view.target)}"))
    branch = tree.add(Text.assemble(*words))
    if view.problem:
        _add_problem(branch, view.problem)


def _add_binding(tree: Tree, view: BindingView) -> None:
    deployed = f": {_line(view.deployed)}" if view.deployed else ""
    branch = tree.add(Text.assemble("snapshot ", (_line(view.snapshot), "bold"), f", by {_line(view.name)}{deployed}"))
    if view.problem:
        _add_problem(branch, view.problem)
    width = min(NAME_COLUMN, max((len(_line(each.name)) for each in view.components[:MOST_SHOWN]), default=0))
    _add_all(branch, view.components, lambda at, each: _add_component(at, each, width), "components")


def _add_component(tree: Tree, view: ComponentView, width: int) -> None:
    name = _line(view.name).ljust(width)
    if not view.deployment:
        tree.add(Text.assemble(f"{name}  ", ("no GitOpsDeployment yet", QUIET)))
        return
    sync = _coloured(view.sync or "not compared", SYNC_COLOURS, SYNC_COLUMN)
    health = _coloured(view.health or "of unknown health", HEALTH_COLOURS, HEALTH_COLUMN)
    commit = _commit(view.commit) if view.commit else "no commit"
    wanted = f", wanted {_commit(view.wanted_commit)}" if view.wanted_commit not in {"", view.commit} else ""
    tree.add(Text.assemble(f"{name}  ", sync, "  ", health, "  ", commit, (wanted, "yellow")))


def _add_promotion(tree: Tree, view: PromotionView) -> None:
    way = f"from {_line(view.environment)} on" if view.automated else f"to {_line(view.environment)}"
    state = _coloured(view.state or "not seen yet", STATE_COLOURS)
    behind = f" behind {_line(view.behind)}" if view.behind else ""
    branch = tree.add(
        Text.assemble((_line(view.name), "bold"), f": snapshot {_line(view.snapshot)} {way}: ", state, behind)
    )
    if view.problem:
        _add_problem(branch, view.problem)
    _add_all(branch, view.steps, _add_step, "environments")


def _add_step(tree: Tree, view: StepView) -> None:
    display = f": {_line(view.display)}" if view.display else ""
    tree.add(Text.assemble(f"{_line(view.environment)}: ", _coloured(view.status, STATE_COLOURS), display))


def _add_problem(tree: Tree, problem: str) -> None:
    tree.add(Text(f"problem: {_line(problem)}", PROBLEM))


def _add_all(
    tree: Tree, views: Sequence[ItemT], add: Callable[[Tree, ItemT], None], what: str, most: int = MOST_SHOWN
) -> None:
    """The first ones, and how many there are besides."""
    for view in views[:most]:
        add(tree, view)
    if len(views) > most:
        tree.add(Text(f"and {len(views) - most} {what} more: -o json shows them", QUIET))


def _coloured(word: str, colours: Mapping[str, str], width: int = 0) -> Text:
    return Text(_line(word).ljust(width), colours.get(word, ""))


def _commit(revision: str) -> str:
    return _line(revision)[:COMMIT_CHARACTERS]


def _line(text: str) -> str:
    """``text`` as one line of characters that can be seen."""
    beyond = "…" if len(text) > MOST_CHARACTERS else ""
    return " ".join(_visible(text[:MOST_CHARACTERS]).split()) + beyond


def _visible(characters: Iterable[str]) -> str:
    """Neither control characters nor those that turn the direction of what follows."""
    return "".join(each if each.isprintable() else " " for each in characters)
