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
from services.planner.domain.fleet.remediation.ladder import (
    CORDON,
    EVACUATE,
    REAPPLY,
    REPLACE,
    next_rung,
    takes_turn,
)
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.remediation.remedy_time import as_going_on, is_idle, may_help_yet, with_due_time
from services.planner.domain.fleet.remediation.replacement import is_replaceable, is_replaced
from services.planner.domain.policy import RemedyPolicy


def decide_next_remedy(ill: Illness, other: str, look: Look) -> Remediation:
    """The row of an instance for which no remedy is being carried out that may help yet.

    Args:
        ill: the instance.
        other: an instance of its ring that is being remedied, for which it has to wait; empty: none.
        look: what else is seen.
    """
    return _resumed(ill, other, look) or _step(ill, other, look)


def _resumed(ill: Illness, other: str, look: Look) -> Remediation | None:
    """With its remedy going on that was held, or not needed for a moment, before it had had its time.

    None: it had, or it is not among those tried, as it was held: then it is taken anew, if it still helps.
    Not beside ``other`` of its ring, which has its turn by now: it waits for that, as long as it has time.
    """
    known = ill.known
    is_tried = known.rung in known.remedies
    if known.state not in ("held", "recovering", "waiting") or known.rung in (EVACUATE, REPLACE) or not is_tried:
        return None
    resumed = as_going_on(ill)
    if not may_help_yet(resumed, look):
        return None
    return _waiting_for(other, known, look) if other and takes_turn(known.rung) else with_due_time(resumed, look)


def _step(ill: Illness, other: str, look: Look) -> Remediation:
    """At its next rung, or waiting for it, or with nothing left to be done."""
    known, again = ill.known, look.next_at
    if not known.rung and look.now < (begins_at := _begins_at(ill, look.policy)):
        return known.with_state("waiting", f"not ill for long: {ill.reason}", look.now, begins_at)
    rung = _rung_of(ill, look.fleet)
    is_last = rung == REPLACE or (not rung and is_replaced(known, look.fleet))
    if is_last and look.now < (replaced_at := _replaced_at(ill, look)):
        message = f"nobody is left on it, and another takes its place unless it recovers: {ill.reason}"
        return known.with_state("waiting", message, look.now, min(replaced_at, again))
    if not rung:
        return known.with_state("exhausted", _ending(ill, look.fleet), look.now, again)
    if rung == EVACUATE and ill.instance.id in look.stranded:
        return known.with_state("exhausted", look.stranded[ill.instance.id], look.now, again)
    if other and takes_turn(rung):
        return _waiting_for(other, known, look)
    return _taken(ill, rung, look)


def _waiting_for(other: str, known: Remediation, look: Look) -> Remediation:
    return known.with_state("waiting", f"for {other}, of the same ring", look.now, look.next_at)


def _begins_at(ill: Illness, policy: RemedyPolicy) -> datetime:
    """When the first remedy comes: as a look has found it since the instance was well, or earlier.

    An instance that is out of reach by turns, and down all the time, is as it is since the last turn only.
    """
    begins_at, known = ill.health.since + policy.after, ill.known
    return min(begins_at, known.due_at) if known.state == "waiting" and known.due_at is not None else begins_at


def _replaced_at(ill: Illness, look: Look) -> datetime:
    """When an evacuated instance is retired, which harms nobody until then; at once if all that is left is to tell.

    That may have been told while it was out of reach: once it can be reached again it has all of the time to recover.
    """
    if not is_replaceable(ill.instance, look.fleet):
        return look.now
    since = ill.health.since
    if REPLACE not in ill.known.remedies:
        since = max(since, ill.known.since if ill.known.state == "waiting" else look.now)
    return since + look.policy.replace_after


def _rung_of(ill: Illness, fleet: Fleet) -> str:
    """The next one; an evacuation goes on until nobody is left."""
    rung = next_rung(ill.health, ill.known.remedies)
    is_begun = EVACUATE in ill.known.remedies and ill.health.is_down
    if not is_begun or rung not in ("", REPLACE):
        return rung
    return EVACUATE if fleet.tenants.on([ill.instance.id]) else rung


def _taken(ill: Illness, rung: str, look: Look) -> Remediation:
    """At this rung from now on. An evacuation that goes on is the one that it was."""
    known, now = ill.known, look.now
    if rung in known.remedies:
        return replace(known, rung=rung).with_state("acting", ill.reason, now, look.next_at)
    taken = replace(
        known,
        state="exhausted" if rung == REPLACE else "acting",
        number=max(known.number + 1, round(now.timestamp() * 1000)),
        rung=rung,
        tried=canonical([*known.remedies, rung]),
        is_cordoned=known.is_cordoned or rung in (CORDON, EVACUATE, REPLACE),
        message=ill.reason,
        since=now,
        due_at=None,
    )
    if rung == REPLACE:
        message = _ending(replace(ill, known=taken), look.fleet)
        return replace(taken, message=message, due_at=look.next_at)
    if rung == REAPPLY and is_idle(rung, ill):
        taken = replace(taken, message=f"by hand alone, as it was installed: {ill.reason}")
    return with_due_time(replace(ill, known=taken), look)


def _ending(ill: Illness, fleet: Fleet) -> str:
    """What is told of one for which nothing else is done."""
    if not is_replaced(ill.known, fleet):
        return f"nothing else helps: {ill.reason}"
    if is_replaceable(ill.instance, fleet):
        return f"it is retired, and another takes its place: {ill.reason}"
    if ill.instance.is_leaving:
        retire = f"'gitopsctl engines retire {ill.instance.id}' gives it up"
        return f"it is {ill.instance.state} and not replaced; {retire}: {ill.reason}"
    return f"it has to be replaced by hand, nobody is left on it: {ill.reason}"
