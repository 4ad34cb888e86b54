"""What is done next for one engine instance that is ill, and whose remedy has not helped, or that has had none. Pure.

The next rung of the ladder (``ladder.py``) is taken, if it is the turn of the instance. Before the first one it has to
be ill for a while, and before the last one nobody has to be left on it. Called by ``remediation.py``, which decides
whose turn it is.
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
    """The row of an instance for which no remedy is being carried out that may help yet.

    Args:
        ill: the instance.
        other: an instance of its ring that is being remedied, for which it has to wait; empty: none.
        look: what else is seen.
    """
    return _resume_remedy(ill, other, look) or _take_next_rung(ill, other, look)


def _resume_remedy(ill: Illness, other: str, look: Look) -> Remediation | None:
    """With its remedy going on that was held, or not needed for a moment, before it had had its time.

    None: it had, or it is not among those tried, as it was held: then it is taken anew, if it still helps.
    Not beside ``other`` of its ring, which has its turn by now: it waits for that, as long as it has time.
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
    """At its next rung, or waiting for it, or with nothing left to be done."""
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
    """When the first remedy comes: as a look has found it since the instance was well, or earlier.

    An instance that is out of reach by turns, and down all the time, is as it is since the last turn only.
    """
    begins_at, row = ill.health.since + policy.after, ill.remediation
    return min(begins_at, row.due_at) if row.state == "waiting" and row.due_at is not None else begins_at


def _replaced_at(ill: Illness, look: Look) -> datetime:
    """When an evacuated instance is retired, which harms nobody until then; at once if all that is left is to tell.

    That may have been told while it was out of reach: once it can be reached again it has all of the time to recover.
    """
    if not is_replaceable(ill.instance, look.fleet):
        return look.now
    since = ill.health.since
    if not ill.remediation.has_tried(REPLACE):
        since = max(since, ill.remediation.since if ill.remediation.state == "waiting" else look.now)
    return since + look.policy.replace_after


def _due_rung(ill: Illness, fleet: Fleet) -> Rung | None:
    """The next one; an evacuation goes on until nobody is left."""
    rung = next_rung(ill.health, ill.remediation.remedies)
    is_begun = ill.remediation.has_tried(EVACUATE) and ill.health.is_down
    if not is_begun or rung not in (None, REPLACE):
        return rung
    return EVACUATE if fleet.tenants.on([ill.instance.id]) else rung


def _take_rung(ill: Illness, rung: Rung, look: Look) -> Remediation:
    """At this rung from now on. An evacuation that goes on is the one that it was."""
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
    """What is told of one for which nothing else is done."""
    if not is_replaced(ill.remediation, fleet):
        return f"nothing else helps: {ill.reason}"
    if is_replaceable(ill.instance, fleet):
        return f"it is retired, and another takes its place: {ill.reason}"
    if ill.instance.is_leaving:
        retire = f"'gitopsctl engines retire {ill.instance.id}' gives it up"
        return f"it is {ill.instance.state} and not replaced; {retire}: {ill.reason}"
    return f"it has to be replaced by hand, nobody is left on it: {ill.reason}"
