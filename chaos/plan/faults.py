"""What happens to the system meanwhile. Each begins when the operations before it were sent, and ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL a process; it is started again after ``seconds``."""

    process: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGSTOP a process, SIGCONT after ``seconds``: to others it is silent, to itself no time has passed."""

    process: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KillAll:
    """SIGKILL every process at once, and start all again."""


@dataclass(frozen=True, slots=True)
class FailCalls:
    """A share of our services' calls to the API server fails: 500, 429, 503, or the connection breaks."""

    share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class FailQueries:
    """A share of planners' and Connect's queries fails: refused, not carried out, or carried out and not answered."""

    share: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Nothing gets through between a process and a server of it, and nobody is told."""

    process: str
    server: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Slow:
    """What a server answers to a process is late."""

    process: str
    server: str
    milliseconds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BreakQueries:
    """Planners' and Connect's connections to the database end again and again, in the middle of an answer."""

    kilobytes: int
    """After so much was answered on one."""
    seconds: float


@dataclass(frozen=True, slots=True)
class FillDisk:
    """No file of a process may grow any more, nor be written; it is started again if it ends by that."""

    process: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ResetConnector:
    """Connect forgets how far it was, streams all rows anew, and a sweep withdraws what was deleted unseen."""


@dataclass(frozen=True, slots=True)
class StepClock:
    """The time of day that one of our services reads is wrong for so long, and right again afterwards."""

    process: str
    by: float
    """Seconds."""
    seconds: float


@dataclass(frozen=True, slots=True)
class RestoreBackup:
    """The database is lost ``seconds`` after a backup of it was made, and restored as the runbook says."""

    seconds: float


Fault = (
    Kill
    | Stop
    | KillAll
    | FailCalls
    | FailQueries
    | Cut
    | Slow
    | BreakQueries
    | FillDisk
    | ResetConnector
    | StepClock
    | RestoreBackup
)
FAULTS: tuple[type[Fault], ...] = get_args(Fault)


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """The fault after this begins while those before it go on that leave room for it."""


WATCHER = "watcher"
LEADER = f"{WATCHER}-leader"
"""Stands for the watcher that leads when the fault begins: a plan cannot know which of them that will be."""

HANDLED = ("planner", WATCHER, "agent", "postgres")
"""Of which service the processes are that somebody who restores a backup stops, starts, or empties."""


def takes_long(fault: Fault) -> bool:
    """It is over when all of it is done, and has no time of its own: others come and go meanwhile."""
    return isinstance(fault, ResetConnector | RestoreBackup | KillAll)


def may_overlap(one: Fault, other: Fault) -> bool:
    """Whether both can be carried out at once.

    Two of processes must not be of the same, and of links, clocks and runbooks there is one at a time. An operator who
    follows a runbook types again what fails by something else. Who kills all processes leaves the proxies of the links.
    """
    sorts = {_sort(one), _sort(other)}
    if len(sorts) == 1:
        return sorts == {"of processes"} and not _may_be_one(target_of(one), target_of(other))
    if "of all processes" in sorts:
        return sorts.isdisjoint({"of processes", "of runbooks"})
    return not (_has_in_hand(one, other) or _has_in_hand(other, one))


def _may_be_one(process: str, other: str) -> bool:
    """Whether two names can be of the same process: the leading watcher is any of them."""
    return process == other or (
        LEADER in {process, other} and process.startswith(WATCHER) and other.startswith(WATCHER)
    )


def _has_in_hand(one: Fault, other: Fault) -> bool:
    """``one`` is a runbook by which somebody stops and starts the process that ``other`` is about."""
    return isinstance(one, RestoreBackup) and _sort(other) == "of processes" and target_of(other).startswith(HANDLED)


def _sort(fault: Fault) -> str:
    match fault:
        case Kill() | Stop() | FillDisk():
            return "of processes"
        case Cut() | Slow() | BreakQueries() | FailCalls() | FailQueries():
            return "of links"
        case StepClock():
            return "of clocks"
        case ResetConnector() | RestoreBackup():
            return "of runbooks"
        case KillAll():
            return "of all processes"


def target_of(fault: Fault) -> str:
    """The process or link that it concerns; empty: it is not about one."""
    match fault:
        case Kill(process) | Stop(process) | FillDisk(process) | StepClock(process):
            return process
        case Cut(process, server) | Slow(process, server):
            return f"{process} to {server}"
        case _:
            return ""
