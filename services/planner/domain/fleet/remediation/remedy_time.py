"""How long an instance's newest remedy may take to help, and when to look at the instance until then. Pure.

If the instance is still ill after that time, the remedy has not helped, and the next one comes. ``remediation.py`` and
``next_remedy.py`` call this.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.common.json_values import canonical
from services.planner.domain.fleet.remediation.illnesses import Illness, Look
from services.planner.domain.fleet.remediation.ladder import next_rung
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.remediation.rungs import EVACUATE, Rung, rung_named
from services.planner.domain.policy import RemedyPolicy

WHILE_DOWN = 2 / 3
"""Share of its time that a rung has while its instance is down: enough for pods to end, start, and be seen to work."""


def may_help_yet(ill: Illness, look: Look) -> bool:
    """Whether the newest remedy is being carried out, and has not had its time."""
    return ill.remediation.state == "acting" and not ill.remediation.is_skipped and look.now < _ends_at(ill, look)


def as_going_on(ill: Illness) -> Illness:
    """The instance as if its newest remedy had been going on since it was taken."""
    row = ill.remediation
    tried = canonical([*row.remedies])
    taken = replace(row, state="acting", tried=tried, since=row.taken_at, message=ill.reason, due_at=None)
    return replace(ill, remediation=taken)


def with_due_time(ill: Illness, look: Look) -> Remediation:
    """The row with the time of the next look, at the latest when its remedy has had its time.

    A degraded instance is looked at before that, because its remedy has less time if it is down by then. So is one that
    is evacuated, because an instance may have room for its tenants by then.
    """
    row, ends_at = ill.remediation, _ends_at(ill, look)
    if ill.health.is_down and not row.has_tried(EVACUATE):
        return replace(row, due_at=ends_at)
    if row.due_at is not None and row.due_at > look.now:
        return row
    return replace(row, due_at=min(ends_at, look.next_at))


def is_idle(rung: Rung, ill: Illness) -> bool:
    """Whether a rung leaves the instance's Argo CD as it is: the planner carries it out, or there is no provisioner."""
    is_nobodys = rung.executor == "provisioner" and ill.instance.wanted_version is None
    return rung.executor == "planner" or is_nobodys


def _ends_at(ill: Illness, look: Look) -> datetime:
    """When the newest remedy has had its time; for an evacuation, the next look."""
    if ill.remediation.newest == EVACUATE:
        return ill.remediation.due_at or look.next_at
    return ill.remediation.since + _time_to_help(ill, look.policy)


def _time_to_help(ill: Illness, policy: RemedyPolicy) -> timedelta:
    """How long the newest remedy may take to help.

    A rung that leaves Argo CD as it is takes no time, unless it is the last rung, or all rungs so far were such and the
    evacuation is next: the instance may recover by itself.
    """
    row, share = ill.remediation, WHILE_DOWN if ill.health.is_down else 1.0
    if not is_idle(row.newest, ill):
        return policy.cool_down * row.newest.cool_down * share
    following = next_rung(ill.health, row.remedies)
    is_untouched = all(is_idle(rung_named(name), ill) for name in row.remedies)
    is_last = following is None or (following == EVACUATE and is_untouched)
    return policy.cool_down * share if is_last else timedelta(0)
