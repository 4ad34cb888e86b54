"""How large a plan is, and what it may break."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.plan.faults import FAULTS, Fault

PATHS = 4
"""Of a repository."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done."""

    operations: int
    tenants: int
    faults: int


@dataclass(frozen=True, slots=True)
class Targets:
    """What of a stack may be broken, and for how long."""

    killed: tuple[str, ...]
    """Processes."""
    stopped: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """Process and server."""
    clocks: tuple[str, ...]
    """Processes whose clocks can be set."""
    seconds: tuple[float, float]
    """Least and most."""
    first: tuple[str | tuple[str, str], ...] = ()
    """Of the processes and links those that all depends on: each kind of fault hits all of them before any other."""
    kinds: tuple[type[Fault], ...] = FAULTS
    """Of faults."""
    services: tuple[tuple[str, ...], ...] = ()
    """Of each service of ours the processes that are at work."""
    outlasting: float = 0
    """Seconds of silence after which others have taken over from a process, however it was that nobody heard of it."""
    paths: tuple[str, ...] = field(default=tuple(f"apps/{number}" for number in range(PATHS)))
    """Of manifests."""
