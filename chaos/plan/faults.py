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
    """The fault after this begins while the one before it goes on."""


def may_overlap(one: Fault, other: Fault) -> bool:
    """Whether both can be carried out at once.

    An operator who follows a runbook has processes started and stopped, and so has who kills all of them: these are
    alone. Two of processes must not be of the same, and of links there is one at a time: their proxies are the same.
    """
    sorts = {_sort(one), _sort(other)}
    if sorts == {"of processes"}:
        return target_of(one) != target_of(other)
    return len(sorts) > 1 and "alone" not in sorts


def _sort(fault: Fault) -> str:
    match fault:
        case Kill() | Stop() | FillDisk():
            return "of processes"
        case Cut() | Slow() | BreakQueries() | FailCalls():
            return "of links"
        case StepClock():
            return "of clocks"
        case ResetConnector() | RestoreBackup() | KillAll():
            return "alone"


def target_of(fault: Fault) -> str:
    """The process or link that it concerns; empty: it is not about one."""
    match fault:
        case Kill(process) | Stop(process) | FillDisk(process) | StepClock(process):
            return process
        case Cut(process, server) | Slow(process, server):
            return f"{process} to {server}"
        case _:
            return ""
