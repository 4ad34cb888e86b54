"""The planner's clock, on a stack that was started with ``--clocks``: what anybody has minutes for is over at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from devstack.harness.hosted import HostedStack

PLANNER = "planner"


def left_of(time: timedelta, since: str) -> timedelta:
    """By how much it has to be later for ``time`` to be over now that began then, and no more than that."""
    return datetime.fromisoformat(since) + time - datetime.now(UTC)


@contextmanager
def later(stack: HostedStack, time: timedelta) -> Iterator[None]:
    """Meanwhile it is that much later for the planner than for everybody else."""
    stack.set_clock(PLANNER, time.total_seconds())
    try:
        yield
    finally:
        stack.set_clock(PLANNER, 0)
