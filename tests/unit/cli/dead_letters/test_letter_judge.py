"""A dead letter may be redriven only if nothing newer has come about what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from services.cli.dead_letters.letter_judge import LogJudge, supersedes
from services.common.errors import Poison
from services.common.kafka import ConsumedMessage
from services.common.messages import (
    DrainEngineInstance,
    FleetOrder,
    Observation,
    Order,
    SyncMoved,
    UndrainEngineInstance,
)
from tests.unit.cli.dead_letters.letters import AT, END, FIRST, SOURCE, VALUE, WEB, Codec, at_log, stored
from tests.unit.planner.given import CREDENTIAL, Applied, at, changed, credential, gone, observed, resync


def refused(message: Any, *later: tuple[int, Any], offset: int = AT, there: ConsumedMessage | None = None) -> str:
    """What a letter of ``message`` is told whose log has ``there`` (its own message), and then ``later``."""
    values = {f"later {number}".encode(): each for number, (_, each) in enumerate(later)}
    messages: dict[bytes | None, Any] = {value: each or Poison("what") for value, each in values.items()}
    codec: Any = Codec(messages | {VALUE: message})
    judge = LogJudge({SOURCE.topic: codec})
    judge.add_letter(stored(offset), FIRST, END)
    judge.see(there or at_log(offset, VALUE))
    for (position, _), value in zip(later, values, strict=True):
        judge.see(at_log(position, value))
    return judge.refusal("0/7")


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="nothing"),
        pytest.param([(AT - 1, changed(6).message)], id="the-same-before-it"),
        pytest.param([(AT + 1, changed(6, "api", uid="uid-2").message)], id="another-resource"),
        pytest.param([(AT + 1, credential(6, "web").message)], id="another-kind"),
        pytest.param([(AT + 1, changed(6, namespace="team-b").message)], id="another-tenant"),
        pytest.param([(AT + 1, resync(6, epoch=1).message)], id="a-list-that-it-is-part-of"),
        pytest.param([(AT + 1, resync(6, epoch=9, kind=CREDENTIAL).message)], id="a-list-of-another-kind"),
    ],
)
def test_letter_when_nothing_newer_is_about_the_same_then_it_may_be_redriven(later: list[tuple[int, Any]]) -> None:
    assert refused(WEB, *later) == ""


@pytest.mark.parametrize(
    "newer",
    [
        pytest.param(changed(6, generation=2).message, id="changed"),
        pytest.param(changed(6, uid="uid-2").message, id="made-again"),
        pytest.param(gone(6).message, id="gone"),
        pytest.param(resync(6, epoch=2).message, id="a-newer-list-that-lacks-it"),
        pytest.param(None, id="not-understood"),
    ],
)
def test_letter_when_something_newer_is_about_the_same_then_it_stays(newer: Any) -> None:
    assert refused(WEB, (AT + 7, newer)).startswith(f"superseded: the message at {AT + 7} ")


def test_letter_when_it_cannot_be_understood_yet_then_it_stays_and_says_why() -> None:
    assert refused(Poison("schema 7 is not in the registry")).endswith("schema 7 is not in the registry")


@pytest.mark.parametrize("offset", [FIRST - 1, END])
def test_letter_when_the_log_does_not_reach_it_then_it_stays(offset: int) -> None:
    assert refused(WEB, offset=offset) == "its log has it no more: what came behind it is not known"


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        pytest.param(at_log(AT, b"what the tenant sent"), "its log has another message there", id="another-value"),
        pytest.param(at_log(AT, VALUE, b"local/team-b"), "its log has another message there", id="another-tenant"),
        pytest.param(at_log(AT, VALUE, None), "its log has another message there", id="no-key"),
        pytest.param(at_log(AT + 1, VALUE), "its log has it no more", id="elsewhere"),
    ],
)
def test_letter_when_it_is_forged_then_it_stays(there: ConsumedMessage, reason: str) -> None:
    assert refused(WEB, there=there).startswith(reason)


def test_letter_when_it_is_the_end_of_a_list_then_it_stays() -> None:
    assert "restart the watcher" in refused(resync(5, epoch=1).message)


def observation(event: Any, name: str = "gitopsdepl-uid-1") -> Observation:
    message = observed(5, event, instance="engine-1", name=name).message
    assert isinstance(message, Observation)
    return message


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (observation(Applied("new")), True),
        (observation(Applied("new"), "gitopsdepl-uid-2"), False),
        (observation(SyncMoved("run", "Running", "", "", "", "")), False),
        (replace(observation(Applied("new")), engine_instance_id="engine-2"), False),
    ],
)
def test_observation_when_a_later_one_is_about_the_same_object_then_it_is_superseded(
    later: Observation, expected: bool
) -> None:
    assert supersedes(later, observation(Applied("old"))) == expected


def order(of: Order) -> FleetOrder:
    return FleetOrder(uuid4(), "ops@host", at(1), of)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(UndrainEngineInstance("engine-1"), True, id="the-same-instance"),
        pytest.param(DrainEngineInstance("engine-1"), True, id="given-again"),
        pytest.param(DrainEngineInstance("engine-2"), False, id="another-instance"),
        pytest.param(None, True, id="not-understood"),
    ],
)
def test_order_when_a_later_one_is_about_the_same_then_it_is_superseded(later: Order | None, expected: bool) -> None:
    assert supersedes(later and order(later), order(DrainEngineInstance("engine-1"))) == expected
