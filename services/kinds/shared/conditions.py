"""Status conditions. A condition that was written once stays in the list and changes its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson

from services.common.errors import Permanent
from services.common.json_values import canonical
from services.common.times import rfc3339
from services.kinds.shared.catalogue import THROTTLED, Reason
from services.kinds.shared.text import MAX_CONDITION_MESSAGE, readable

Json = dict[str, Any]
Condition = Json
ActiveConditions = Mapping[str, tuple[str, str]]
"""Reason and message of each active condition, by type."""

ConditionState = tuple[str, str, str]
"""Status, reason and message of a condition."""
ConditionStates = Mapping[str, ConditionState]
"""Conditions by type."""

CONDITIONS = "conditions"
"""The member of a status that has the conditions, unless its kind declares another one."""

HELD_BACK_NOTICE_MS = 1000
"""A change that was held back for less time gets no condition."""

THROTTLING_SHOWN = timedelta(seconds=60)
"""How long the condition is shown after the change."""


class Refused(Permanent):
    """A resource is refused. Has status, reason and message of the condition that says why."""

    def __init__(self, status: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def pending(self) -> bool:
        """Whether something is still missing that is expected: nothing is wrong yet."""
        return self.reason == Reason.CHECKING


def with_active(previous: Iterable[Condition], holding: ActiveConditions, at: datetime) -> list[Condition]:
    """The conditions of the next status: known ones first, in their order, then new ones.

    Conditions in ``holding`` are True. Others become False with the reason ``<type>Resolved`` and no message.
    ``lastTransitionTime`` changes when status, reason or message do.
    """
    known = list(previous)
    resolved = {type_: _resolved(type_) for type_ in (condition["type"] for condition in known)}
    return with_states(known, resolved | {type_: ("True", *why) for type_, why in holding.items()}, at)


def with_states(previous: Iterable[Condition], states: ConditionStates, at: datetime) -> list[Condition]:
    """The conditions of the next status. Those that ``states`` does not name stay as they are."""
    known = {condition["type"]: condition for condition in previous}
    if not states:
        return list(known.values())
    now = rfc3339(at)
    new = [type_ for type_ in states if type_ not in known]
    unnamed = {type_: condition for type_, condition in known.items() if type_ not in states}
    return [unnamed.get(type_) or _condition(known.get(type_), type_, states[type_], now) for type_ in [*known, *new]]


def recurring_states(
    holding: ActiveConditions, before: Json, types: Iterable[str] = (THROTTLED,)
) -> dict[str, ConditionState]:
    """ConditionStates of ``types``: True if they hold, resolved if ``before`` has them, otherwise left out."""
    shown = {condition["type"] for condition in before.get("conditions", ())}
    states: dict[str, ConditionState] = {}
    for type_ in types:
        if type_ in holding:
            states[type_] = ("True", *holding[type_])
        elif type_ in shown:
            states[type_] = _resolved(type_)
    return states


def throttling(held_back_ms: int) -> ActiveConditions:
    """The condition Throttled, if the newest change was held back for a second or more."""
    if held_back_ms < HELD_BACK_NOTICE_MS:
        return {}
    seconds = held_back_ms // 1000
    message = f"changes of this namespace arrive faster than allowed; this one was held back for {seconds} s"
    return {THROTTLED: (THROTTLED, message)}


def with_probe_time(conditions: Iterable[Condition], at: datetime) -> list[Condition]:
    """The same conditions with ``at`` as the time of the last probe."""
    return [condition | {"lastProbeTime": rfc3339(at)} for condition in conditions]


def parsed_status(text: str) -> Json:
    """A status as it was compiled; empty if there is none."""
    status = orjson.loads(text) if text else {}
    return status if isinstance(status, dict) else {}


def compile_status(
    previous: str,
    states: ConditionStates,
    at: datetime,
    part: Json | None = None,
    *,
    by_type: bool = False,
    member: str = CONDITIONS,
) -> str:
    """Canonical JSON of a status: ``part`` and the conditions. Returns ``previous`` if only a probe time would differ.

    Args:
        previous: the status compiled last, canonical JSON.
        states: conditions by type; those shown before and not named here stay as they were.
        at: time of the event that may change it.
        part: the rest of the status.
        by_type: the conditions are sorted by type; otherwise those shown before come first.
        member: of the status that has the conditions.
    """
    before = parsed_status(previous)
    conditions = with_states(before.get(member, ()), states, at)
    if by_type:
        conditions.sort(key=lambda condition: str(condition["type"]))
    status = (part or {}) | {member: conditions}
    return previous if status == before else canonical(status | {member: with_probe_time(conditions, at)})


def _resolved(type_: str) -> ConditionState:
    return ("False", f"{type_}Resolved", "")


def _condition(known: Condition | None, type_: str, state: ConditionState, now: str) -> Condition:
    status, reason, message = state
    shown = readable(message)[:MAX_CONDITION_MESSAGE]
    content = {"type": type_, "status": status, "reason": reason, "message": shown}
    if known is not None and all(known.get(name) == value for name, value in content.items()):
        return known
    probe = known.get("lastProbeTime", now) if known is not None else now
    return content | {"lastTransitionTime": now, "lastProbeTime": probe}
