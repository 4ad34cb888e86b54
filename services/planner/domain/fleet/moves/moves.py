"""Which step of a tenant's move comes next, from what was seen of it. Pure: it decides, and changes nothing.

1. ``reserved``: the target has room for the tenant, which counts as if it were there. If the tenant has changed since
   the move was ordered, so that it would not be ordered now, it is ``cancelled`` at once.
2. ``preparing``: the target gets its projects, clusters and repositories, until its agent has found all of them good.
   After half of the time that the step has no credentials are waited for that the source's agent has no answer for:
   a tenant that changes them faster than anybody can check them does not stay for that. A tenant that deploys to its
   engine's own cluster from now on, and would leave that, goes back at once.
3. ``pausing``: Applications of the source sync no more; a sync that is under way ends, new sync runs wait. A run that
   has not ended after half of the time that the step has is terminated: a hook may never end. From then on other syncs
   are left to the next step, and deletions to the target: a tenant that always has one under way does not stay for
   that, either.
4. ``releasing``: Applications of the source go, and what they have deployed stays. A sync that is still under way has a
   minute, and is terminated then.
5. ``adopting``: the tenant is the target's; its Applications there take over what was deployed.
6. ``withdrawing``: projects, clusters and repositories of the source go; then it is done.

A move by which an instance is evacuated that is down (``forced``) waits for nothing that the source's engine does, and
if nobody can reach the source, it goes from 2, 3 or 4 to 5 at once: it is ``fenced`` then, and the source gives its
Applications up when it can be reached again, while the move is at 5 or 6.

One whose target is evacuated at 5 ends there, and another one takes the tenant on, from where it never arrived
(``remediation/evacuation.py``): all that the target was to take over the next one does.

Until 4 a move goes back (``cancelling``) if an operator orders it, or a step takes too long: the source has all that it
had. From 4 on it goes on, however long that takes. Only 5 does not wait for ever for a target that is not down: a
tenant's cluster may keep its engine from comparing an Application, and a tenant's name server its agent from making
one, and nobody else shall wait for that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.planner.domain.fleet.rows import Move, MoveStep

NUMBERS: dict[MoveStep, int] = {
    "ordered": 0,
    "reserved": 1,
    "preparing": 2,
    "pausing": 3,
    "releasing": 4,
    "adopting": 5,
    "withdrawing": 6,
    "done": 7,
    "cancelling": 8,
    "cancelled": 9,
}
"""As operators see them (docs/operations/moves.md): a number is never given to another step."""
HALTED: tuple[MoveStep, ...] = ("pausing", "releasing")
"""The source syncs nothing, and what it shows is not told."""
KEEPING: tuple[MoveStep, ...] = ("releasing", "adopting")
"""What is deleted meanwhile is deleted afterwards: by the target, which can remove what was deployed."""


LOOK_AGAIN = timedelta(seconds=5)
LONGEST = timedelta(days=1)
"""Until a target that is not down is waited for no more to make Applications in place of the source's. What one has
deployed stays that is deleted before it is made."""
LOST = "its source cannot be reached, and gives its Applications up when it can be again"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a tenant that is moved, as far as a step waits for it."""

    unprepared: str = ""
    """Why the target is not ready for its Applications; empty if it is."""
    unpaused: str = ""
    """What still runs at the source; empty if nothing does."""
    is_released: bool = False
    """No Application is left at the source."""
    is_taken: bool = False
    """The target has made all Applications that have deployed something, if only as they were; or it cannot."""
    is_adopted: bool = False
    """It has all as they are, and has told what it sees of each."""
    is_target_down: bool = False
    """Nothing new is deployed there: the tenant may have to be taken on by another."""
    is_withdrawn: bool = False
    """Nothing is left where the tenant is not."""
    is_source_lost: bool = False
    """Nobody can do anything at the source."""
    unmovable: str = ""
    """What keeps the tenant at the source; empty if nothing does."""
    refusal: str = ""
    """The rule by which the target may not have it, as the tenant is by now; empty if it may."""


def next_step(move: Move, seen: Seen, now: datetime, patience: timedelta) -> Move:
    """``move`` after the next step; the very same if it has to wait.

    Args:
        move: as it is.
        seen: of its tenant.
        now: the time.
        patience: how long a step may take after which it goes back.
    """
    if move.step == "reserved" and seen.refusal:
        return replace(_at(move, "cancelled", now, _cause(move, seen.refusal)), is_cancelled=True)
    if move.step == "preparing" and seen.unmovable:
        return replace(_at(move, "cancelling", now, _cause(move, seen.unmovable)), is_cancelled=True)
    step, waits_for = _following(move, seen, now, patience)
    if move.is_cancellable and move.step != "reserved" and (move.is_cancelled or _is_overdue(move, now, patience)):
        message = _cause(move, f"{move.step} took longer than {patience}: {waits_for}")
        if move.is_cancelled or waits_for:
            return _at(move, "cancelling", now, message)
    if waits_for:
        return move
    is_fenced = step == "adopting" and move.path == "forced" and seen.is_source_lost
    return replace(_at(move, step, now, LOST), path="fenced") if is_fenced else _at(move, step, now)


def _cause(move: Move, otherwise: str) -> str:
    """Why a move goes back: as was told when it was cancelled, if it was."""
    return (move.is_cancelled and move.message) or otherwise


def due_time(move: Move, seen: Seen, now: datetime, patience: timedelta) -> datetime | None:
    """When to look again: at once if a step can be taken, or else when patience ends; None: it has no end."""
    if next_step(move, seen, now, patience) is not move:
        return now
    times = [move.step_since + patience] if move.is_cancellable else []
    if move.step == "adopting":
        times.extend(end for each in (patience, LONGEST) if now < (end := move.step_since + each))
        if seen.is_target_down and _is_overdue(move, now, patience):
            times.append(now + LOOK_AGAIN)  # its target may be back, which is no event of the tenant's
    if move.step == "preparing" and not has_waited(move, now, patience):
        times.append(move.step_since + patience / 2)
    if _waits_for_syncs(move):
        half = move.step_since + patience / 2
        times.append(half if now < half else now + LOOK_AGAIN)  # likewise its source
    if move.path == "forced" and move.step in ("preparing", *HALTED):
        times.append(now + LOOK_AGAIN)  # its source may be lost meanwhile, which is no event of the tenant's
    return min(times, default=None)


def has_waited(move: Move, now: datetime, patience: timedelta) -> bool:
    """Whether half of the time that the step has is over: what may never come by itself is not waited for any more."""
    return now >= move.step_since + patience / 2


def is_in_haste(move: Move, now: datetime, patience: timedelta) -> bool:
    """Whether the second half of the time that the step has is running; after it the move goes back."""
    return has_waited(move, now, patience) and not _is_overdue(move, now, patience)


def has_waited_for_runs(move: Move, now: datetime, patience: timedelta) -> bool:
    """Whether sync runs of the source that are under way are terminated. The other half of ``patience`` is for that."""
    return _waits_for_syncs(move) and has_waited(move, now, patience)


def _waits_for_syncs(move: Move) -> bool:
    return move.step == "pausing" and move.path == "whole"


def _following(move: Move, seen: Seen, now: datetime, patience: timedelta) -> tuple[MoveStep, str]:
    """The step after this one, and what it waits for; empty if for nothing."""
    waited = patience if seen.is_taken else max(patience, LONGEST)
    is_arrived = seen.is_adopted or (not seen.is_target_down and _is_overdue(move, now, waited))
    if move.path == "forced" and seen.is_source_lost and move.step in ("preparing", *HALTED):
        return "adopting", (move.step == "preparing" and seen.unprepared) or seen.unmovable
    following: dict[MoveStep, tuple[MoveStep, str]] = {
        "reserved": ("preparing", ""),
        "preparing": ("pausing", seen.unprepared),
        "pausing": ("releasing", seen.unmovable or seen.unpaused),
        "releasing": ("adopting", "" if seen.is_released else "Applications of the source"),
        "adopting": ("withdrawing", "" if is_arrived else "Applications of the target"),
        "withdrawing": ("done", "" if seen.is_withdrawn else "objects of the source"),
        "cancelling": ("cancelled", "" if seen.is_withdrawn else "objects of the target"),
    }
    return following.get(move.step, (move.step, "nothing"))


def _is_overdue(move: Move, now: datetime, patience: timedelta) -> bool:
    return now >= move.step_since + patience


def _at(move: Move, step: MoveStep, now: datetime, message: str = "") -> Move:
    """``move`` at ``step`` since ``now``.

    What agents reported was for the step before; of the preparation it is needed when the tenant is taken over.
    """
    reported = "{}" if step in ("preparing", "cancelling", "withdrawing") else move.reported
    return replace(move, step=step, step_since=now, reported=reported, message=message or move.message)
