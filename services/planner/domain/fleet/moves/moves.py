"""Which step of a tenant's move comes next, from what was seen of the tenant. Pure: it decides, and changes nothing.

1. ``reserved``: the target has room for the tenant, which counts as if the tenant were there. If the tenant has changed
   since the move was ordered, so that the order would be refused now, the move is ``cancelled`` at once.
2. ``preparing``: the target gets the tenant's projects, clusters and repositories, until its agent has found all of
   them good. In the second half of the step's time the move does not wait for credentials that the source's agent has
   not checked either: a tenant that changes credentials faster than agents check them is moved, too. If the tenant now
   has deployments to its engine's own cluster, which the move would leave, the move goes back at once.
3. ``pausing``: the source's Applications do not sync any more. A sync that is under way ends; new sync runs wait. In
   the second half of the step's time, sync runs that are under way are terminated, because a hook may never end. Other
   syncs are left to the next step, and deletions to the target: a tenant that always has one of them under way is
   moved, too.
4. ``releasing``: the source's Applications are removed, and what they have deployed stays. A sync that is still under
   way has a minute, and is terminated then.
5. ``adopting``: the tenant belongs to the target. Its Applications there take over what was deployed.
6. ``withdrawing``: projects, clusters and repositories are removed from the source. Then the move is ``done``.

A ``forced`` move evacuates an instance that is down. It waits for nothing that the source's engine does. If nobody can
reach the source, it goes from step 2, 3 or 4 to step 5 at once. It is ``fenced`` then: the source gives its
Applications up when it can be reached again, while the move is at step 5 or 6.

If the target is evacuated while a move is at step 5, the move ends there, and another move takes the tenant on from the
target (``remediation/evacuation.py``). The next target takes over all that this one should have taken over.

Until step 4 a move goes back (``cancelling``) if an operator cancels it, or if a step takes too long: the source has
all that it had. From step 4 on it goes on, however long that takes. Step 5 has an end nevertheless, unless the target
is down: a tenant's cluster may keep the engine from comparing an Application, and a tenant's name server may keep the
agent from making one, and other tenants must not wait for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

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
SUCCESSORS: Mapping[MoveStep, MoveStep] = {
    "reserved": "preparing",
    "preparing": "pausing",
    "pausing": "releasing",
    "releasing": "adopting",
    "adopting": "withdrawing",
    "withdrawing": "done",
    "cancelling": "cancelled",
}
"""The step after each that a move leaves by what is seen of its tenant."""
HALTED: tuple[MoveStep, ...] = ("pausing", "releasing")
"""Steps at which the source syncs nothing, and users do not see what it shows."""
KEEPING: tuple[MoveStep, ...] = ("releasing", "adopting")
"""Steps at which deletions wait: the target carries them out afterwards, as it can remove what was deployed."""
LOOK_AGAIN = timedelta(seconds=5)
LONGEST = timedelta(days=1)
"""How long a target that is not down may take to make Applications in place of the source's. If an Application is
deleted before the target has made it, what it has deployed stays."""
LOST = "its source cannot be reached, and gives its Applications up when it can be again"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a tenant that is moved, as far as steps wait for it."""

    unprepared: str = ""
    """Why the target is not ready for its Applications; empty if it is."""
    unpaused: str = ""
    """What still runs at the source; empty if nothing does."""
    is_released: bool = False
    """No Application is left at the source."""
    is_taken: bool = False
    """The target has made all Applications that have deployed something, if only with their old specs; or it cannot."""
    is_adopted: bool = False
    """The target has all Applications with their present specs, and has reported what it sees of each."""
    is_target_down: bool = False
    """The target deploys nothing new: another instance may have to take the tenant on."""
    is_withdrawn: bool = False
    """Nothing of the tenant is left on the instance that it has left, or has not come to."""
    is_source_lost: bool = False
    """Nobody can do anything at the source."""
    unmovable: str = ""
    """What keeps the tenant at the source; empty if nothing does."""
    refusal: str = ""
    """The rule by which the target may not have the tenant as it is now; empty if it may."""


class _Next(NamedTuple):
    """The step after this one can be taken."""

    step: MoveStep


class _Waiting(NamedTuple):
    """The step after this one cannot be taken yet."""

    reason: str
    """What the move waits for; never empty."""


def next_step(move: Move, seen: Seen, now: datetime, patience: timedelta) -> Move:
    """``move`` at its next step; the very same object if it has to wait.

    Args:
        move: as it is.
        seen: what was seen of its tenant.
        now: the time.
        patience: how long a step may take before the move goes back.
    """
    if move.step == "reserved" and seen.refusal:
        over = _enter_step(move, "cancelled", now, _reason_to_go_back(move, seen.refusal))
        return replace(over, is_cancelled=True)
    if move.step == "preparing" and seen.unmovable:
        returning = _enter_step(move, "cancelling", now, _reason_to_go_back(move, seen.unmovable))
        return replace(returning, is_cancelled=True)
    following = _next_or_waiting(move, seen, now, patience)
    waits_for = following.reason if isinstance(following, _Waiting) else ""
    is_to_go_back = move.is_cancelled or (bool(waits_for) and _is_overdue(move, now, patience))
    if move.is_cancellable and move.step != "reserved" and is_to_go_back:
        message = _reason_to_go_back(move, f"{move.step} took longer than {patience}: {waits_for}")
        return _enter_step(move, "cancelling", now, message)
    if isinstance(following, _Waiting):
        return move
    if following.step == "adopting" and move.path == "forced" and seen.is_source_lost:
        return replace(_enter_step(move, "adopting", now, LOST), path="fenced")
    return _enter_step(move, following.step, now)


def _reason_to_go_back(move: Move, otherwise: str) -> str:
    """Why a move goes back: the message with which it was cancelled, or else ``otherwise``."""
    if move.is_cancelled and move.message:
        return move.message
    return otherwise


def due_time(move: Move, seen: Seen, now: datetime, patience: timedelta) -> datetime | None:
    """When to look at ``move`` again: now if it can take a step, or else when patience ends; None: there is no end."""
    if next_step(move, seen, now, patience) is not move:
        return now
    times = [move.step_since + patience] if move.is_cancellable else []
    if move.step == "adopting":
        times.extend(end for each in (patience, LONGEST) if now < (end := move.step_since + each))
        if seen.is_target_down and _is_overdue(move, now, patience):
            times.append(now + LOOK_AGAIN)  # the target may be back, which is no event of the tenant's
    if move.step == "preparing" and not has_waited(move, now, patience):
        times.append(move.step_since + patience / 2)
    if _waits_for_syncs(move):
        half = move.step_since + patience / 2
        times.append(half if now < half else now + LOOK_AGAIN)  # likewise the source
    if move.path == "forced" and move.step in ("preparing", *HALTED):
        times.append(now + LOOK_AGAIN)  # the source may be lost meanwhile, which is no event of the tenant's
    return min(times, default=None)


def has_waited(move: Move, now: datetime, patience: timedelta) -> bool:
    """Whether half of the step's time is over: the move does not wait any more for what may never come."""
    return now >= move.step_since + patience / 2


def is_late(move: Move, now: datetime, patience: timedelta) -> bool:
    """Whether the second half of the step's time is running, after which the move goes back."""
    return has_waited(move, now, patience) and not _is_overdue(move, now, patience)


def has_waited_for_runs(move: Move, now: datetime, patience: timedelta) -> bool:
    """Whether sync runs of the source are terminated, which the second half of the step's time is for."""
    return _waits_for_syncs(move) and has_waited(move, now, patience)


def _waits_for_syncs(move: Move) -> bool:
    return move.step == "pausing" and move.path == "whole"


def _next_or_waiting(move: Move, seen: Seen, now: datetime, patience: timedelta) -> _Next | _Waiting:
    """The step after the one that ``move`` is at, or what it waits for before that."""
    if move.path == "forced" and seen.is_source_lost and move.step in ("preparing", *HALTED):
        unprepared = seen.unprepared if move.step == "preparing" else ""
        step, reason = SUCCESSORS["releasing"], unprepared or seen.unmovable
    elif move.step in SUCCESSORS:
        step, reason = SUCCESSORS[move.step], _reason_to_wait(move, seen, now, patience)
    else:
        return _Waiting("nothing")
    return _Waiting(reason) if reason else _Next(step)


def _reason_to_wait(move: Move, seen: Seen, now: datetime, patience: timedelta) -> str:
    """What has to come true before ``move`` leaves its step; empty if all has."""
    match move.step:
        case "preparing":
            return seen.unprepared
        case "pausing":
            return seen.unmovable or seen.unpaused
        case "releasing" if not seen.is_released:
            return "Applications of the source"
        case "adopting" if not _has_arrived(move, seen, now, patience):
            return "Applications of the target"
        case "withdrawing" | "cancelling" if not seen.is_withdrawn:
            return f"objects of the {'source' if move.step == 'withdrawing' else 'target'}"
        case _:
            return ""


def _has_arrived(move: Move, seen: Seen, now: datetime, patience: timedelta) -> bool:
    """Whether the target has taken the tenant over, or is not waited for any more."""
    longest = patience if seen.is_taken else max(patience, LONGEST)
    return seen.is_adopted or (not seen.is_target_down and _is_overdue(move, now, longest))


def _is_overdue(move: Move, now: datetime, patience: timedelta) -> bool:
    return now >= move.step_since + patience


def _enter_step(move: Move, step: MoveStep, now: datetime, message: str = "") -> Move:
    """``move`` at ``step`` since ``now``.

    What agents reported for the step before is dropped, except what they reported of the preparation: the target needs
    that when it takes the tenant over.
    """
    reported = "{}" if step in ("preparing", "cancelling", "withdrawing") else move.reported
    return replace(move, step=step, step_since=now, reported=reported, message=message or move.message)
