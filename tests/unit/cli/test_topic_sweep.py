"""What a rebuild withdraws from the topics, what of that the guard refuses, and how tables and topics are compared."""

from __future__ import annotations

from typing import Any

import pytest

from services.cli.streamed_topics import Comparison, compare
from services.cli.topic_sweep import SHOWN, Unknown
from services.planner.domain.policy import SweepGuard

ROW: Any = None
GUARD = SweepGuard(share=0.5, minimum=2)


def unknown(engine: int = 0, workspace: int = 0, **known: int) -> Unknown:
    objects = {("one", "Application", "argocd", f"app-{number}"): ROW for number in range(engine)}
    statuses = {("local", "team-a", "Secret", f"secret-{number}"): ROW for number in range(workspace)}
    return Unknown(objects, statuses, known)


@pytest.mark.parametrize(
    ("found", "approved", "refused"),
    [
        pytest.param(unknown(engine=5, one=5), (), {}, id="half of an instance"),
        pytest.param(unknown(engine=6, one=5), (), {"one": "it would lose 6 of 11"}, id="more than half"),
        pytest.param(unknown(engine=2), (), {}, id="few, though they are all"),
        pytest.param(unknown(engine=6, one=5), ("one",), {}, id="approved by name"),
        pytest.param(
            unknown(engine=1, workspace=3, one=9), (), {"local": "it would lose 3 of 3"}, id="statuses of a workspace"
        ),
        pytest.param(
            unknown(engine=6, workspace=3, one=5),
            ("one",),
            {"local": "it would lose 3 of 3"},
            id="another one is approved",
        ),
    ],
)
def test_sweep_when_it_would_remove_much_then_it_is_refused_for_that_instance_or_workspace(
    found: Unknown, approved: tuple[str, ...], refused: dict[str, str]
) -> None:
    assert found.refused(GUARD, approved) == refused


def test_sweep_when_told_then_keys_are_named_but_not_without_end() -> None:
    lines = list(unknown(engine=SHOWN + 5).described())
    assert lines[:2] == ["105 objects and 0 statuses that no row has", "one: Application argocd/app-0"]
    assert (len(lines), lines[-1]) == (SHOWN + 2, "… and 5 more")


def test_rows_when_compared_with_their_topic_then_each_is_counted_once() -> None:
    def key(name: str) -> tuple[str, str, str, str]:
        return ("one", "Application", "argocd", name)

    rows = {key("same"): "present 1", key("other"): "present 2", key("new"): "present 3"}
    streamed = {key("same"): "present 1", key("other"): "absent 2", key("gone"): "present 4"}
    assert compare(rows, streamed) == Comparison(unchanged=1, differing=1, new=1, unknown=1)
