"""What is done next for one ill engine instance that had no remedy yet, or whose remedy has not helped. Pure.

If it is the instance's turn, it takes the next rung of the ladder (``ladder.py``). Before the first rung the instance
has to be ill for a while, and before the last one no tenant may be left on it. ``remediation.py`` calls this and
decides whose turn it is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.common.json_values import canonical
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.remediation.illnesses import Illness, Look
from services.planner.domain.fleet.remediation.ladder import next_rung
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.remediation.remedy_time import as_going_on, is_idle, may_help_yet, with_due_time
from services.planner.domain.fleet.remediation.replacement import is_replaceable, is_replaced
from services.planner.domain.fleet.remediation.rungs import EVACUATE, REPLACE, Rung
from services.planner.domain.policy import RemedyPolicy


def decide_next_remedy(ill: Illness, other: str, look: Look) -> Remediation:
    """The row of an ill instance whose newest remedy, if there is one, has had its time.

    Args:
        ill: the instance.
        other: id of an instance of its ring that has its turn; empty: none has.
        look: what else is seen.
    """
    return _resume_remedy(ill, other, look) or _take_next_rung(ill, other, look)


def _resume_remedy(ill: Illness, other: str, look: Look) -> Remediation | None:
    """The row with its newest remedy going on, which was interrupted before it had had its time; None: it does not.

    A remedy is interrupted if the instance was held, or healthy for a moment. If an order to an agent was held, the
    remedy does not count as tried, and is taken anew. While ``other`` has its turn, the remedy waits, as long as it has
    time left.
    """
    row = ill.remediation
    is_tried = row.rung in row.remedies
    if row.state not in ("held", "recovering", "waiting") or not row.newest.is_resumable or not is_tried:
        return None
    resumed = as_going_on(ill)
    if not may_help_yet(resumed, look):
        return None
    return _wait_for_other(other, row, look) if other and row.newest.takes_turn else with_due_time(resumed, look)


def _take_next_rung(ill: Illness, other: str, look: Look) -> Remediation:
    """The row at its next rung, or waiting for that, or with no rung left."""
    row, again = ill.remediation, look.next_at
    if not row.rung and look.now < (begins_at := _begins_at(ill, look.policy)):
        return row.with_state("waiting", f"not ill for long: {ill.reason}", look.now, begins_at)
    rung = _due_rung(ill, look.fleet)
    is_last = rung == REPLACE or (rung is None and is_replaced(row, look.fleet))
    if is_last and look.now < (replaced_at := _replaced_at(ill, look)):
        message = f"nobody is left on it, and another takes its place unless it recovers: {ill.reason}"
        return row.with_state("waiting", message, look.now, min(replaced_at, again))
    if rung is None:
        return row.with_state("exhausted", _ending_in_words(ill, look.fleet), look.now, again)
    if rung == EVACUATE and ill.instance.id in look.stranded:
        return row.with_state("exhausted", look.stranded[ill.instance.id], look.now, again)
    if other and rung.takes_turn:
        return _wait_for_other(other, row, look)
    return _take_rung(ill, rung, look)


def _wait_for_other(other: str, row: Remediation, look: Look) -> Remediation:
    return row.with_state("waiting", f"for {other}, of the same ring", look.now, look.next_at)


def _begins_at(ill: Illness, policy: RemedyPolicy) -> datetime:
    """When the first rung is taken: once the instance has been ill for long enough.

    An instance that is down, and out of reach by turns, has a new reason since the last turn. So a time that an earlier
    look has set is not put off.
    """
    begins_at, row = ill.health.since + policy.after, ill.remediation
    return min(begins_at, row.due_at) if row.state == "waiting" and row.due_at is not None else begins_at


def _replaced_at(ill: Illness, look: Look) -> datetime:
    """When an evacuated instance is replaced; now if planners cannot replace it, and only tell operators so.

    An instance without tenants harms nobody, so it has time to recover. If it is out of reach, operators may have read
    that they should replace it; once it can be reached again, all of its time to recover begins anew.
    """
    if not is_replaceable(ill.instance, look.fleet):
        return look.now
    since = ill.health.since
    if not ill.remediation.has_tried(REPLACE):
        since = max(since, ill.remediation.since if ill.remediation.state == "waiting" else look.now)
    return since + look.policy.replace_after


def _due_rung(ill: Illness, fleet: Fleet) -> Rung | None:
    """The next rung, or the evacuation again until no tenant is left; None: there is none."""
    rung = next_rung(ill.health, ill.remediation.remedies)
    is_begun = ill.remediation.has_tried(EVACUATE) and ill.health.is_down
    if not is_begun or rung not in (None, REPLACE):
        return rung
    return EVACUATE if fleet.tenants.on([ill.instance.id]) else rung


def _take_rung(ill: Illness, rung: Rung, look: Look) -> Remediation:
    """The row at ``rung`` from now on. An evacuation that goes on keeps its number and its place among those tried."""
    row, now = ill.remediation, look.now
    if row.has_tried(rung):
        return replace(row, rung=rung.name).with_state("acting", ill.reason, now, look.next_at)
    taken = replace(
        row,
        state="exhausted" if rung == REPLACE else "acting",
        number=max(row.number + 1, round(now.timestamp() * 1000)),
        rung=rung.name,
        tried=canonical([*row.remedies, rung.name]),
        is_cordoned=row.is_cordoned or rung.cordons,
        message=ill.reason,
        since=now,
        due_at=None,
    )
    if rung == REPLACE:
        message = _ending_in_words(replace(ill, remediation=taken), look.fleet)
        return replace(taken, message=message, due_at=look.next_at)
    if rung.executor == "provisioner" and is_idle(rung, ill):
        taken = replace(taken, message=f"by hand alone, as it was installed: {ill.reason}")
    return with_due_time(replace(ill, remediation=taken), look)


def _ending_in_words(ill: Illness, fleet: Fleet) -> str:
    """The message of an instance for which no rung is left."""
    if not is_replaced(ill.remediation, fleet):
        return f"nothing else helps: {ill.reason}"
    if is_replaceable(ill.instance, fleet):
        return f"it is retired, and another takes its place: {ill.reason}"
    if ill.instance.is_leaving:
        retire = f"'gitopsctl engines retire {ill.instance.id}' gives it up"
        return f"it is {ill.instance.state} and not replaced; {retire}: {ill.reason}"
    return f"it has to be replaced by hand, nobody is left on it: {ill.reason}"
