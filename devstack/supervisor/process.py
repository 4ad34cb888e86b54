"""What the supervisor runs, as plain values."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

Probe = Callable[[], Awaitable[bool]]
"""Asks a process whether it can serve; False or an OSError means not yet."""

Prepare = Callable[[], Awaitable[None]]
"""Makes files a process needs before each start; does nothing when they are there."""

START_SECONDS = 300.0
"""Of a machine on which several stacks start at once; a broker takes six where nothing else runs."""


async def nothing_to_prepare() -> None:
    """For processes that need no files of their own."""


@dataclass(frozen=True)
class Process:
    """A process that stays."""

    name: str
    argv: tuple[str, ...]
    ready: Probe
    env: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    """Processes and steps that must be ready first; they are stopped after this one."""
    prepare: Prepare = nothing_to_prepare
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends when the supervisor is killed."""
    held: bool = False
    """Not started with the stack, only by name."""
    unprivileged: bool = False
    """Refuses to run as root."""
    start_seconds: float = START_SECONDS
    stop_seconds: float = 8


@dataclass(frozen=True)
class Step:
    """A command that runs once and must succeed."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    start_seconds: float = START_SECONDS


Node = Process | Step
