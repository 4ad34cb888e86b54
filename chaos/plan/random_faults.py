"""Faults by chance, endlessly: failovers of our services, and every other kind in turn. Pure, as :mod:`generate` is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import TypeVar

from chaos.plan.faults import (
    LEADER,
    BreakQueries,
    Cut,
    FailCalls,
    FailQueries,
    Fault,
    FillDisk,
    Kill,
    KillAll,
    Meanwhile,
    ResetConnector,
    RestoreBackup,
    Slow,
    StepClock,
    Stop,
    may_overlap,
    takes_long,
)
from chaos.plan.plan import Step
from chaos.plan.size import Targets

T = TypeVar("T")

FAILING_SHARE = 0.2
FAILING_QUERIES = (0.02, 0.2)
"""Shares. A batch is some ten queries in one transaction: of those with one in five hardly any succeeds."""
LATE_MILLISECONDS = (50, 200, 1000)
CLOCK_STEPS = (-3600, -60, -5, 5, 60, 3600)
ANSWERED_KILOBYTES = (1, 16, 128)
DATABASES = ("kafka", "postgres")
OVERLAPPING = 2
"""One in so many faults that can be at once with the next one is."""
BESIDE_LONG = 3
"""So many faults after one that takes long begin while it goes on, if they can, each at its own place."""
FAILOVERS = 4
"""One in so many faults is one by which another process has to take over from one of ours that is at work."""
LONG_AT_MOST = 1.3
"""Times as long as others need to take over."""
LEASES = "kube-apiserver"
"""Where watchers see who leads."""


def random_faults(random: Random, targets: Targets) -> Iterator[Fault]:
    """Failovers of our services, one in so many; and of the rest each kind in turn, with all of its targets in turn."""
    failovers, others = _failovers(random, targets), _by_kind(random, targets)
    while True:
        yield from islice(failovers, 1)
        yield from islice(others, FAILOVERS - 1)


def _failovers(random: Random, targets: Targets) -> Iterator[Fault]:
    """Each service is killed, and stopped until another does its work; a leader is cut off from its lease, too.

    The first of each service come before the second of any. There are none without services or such kinds.
    """
    make = _FaultMakers(random, targets)
    services = random.sample(targets.services, len(targets.services))
    kinds: tuple[type[Kill | Stop], ...] = (Kill, Stop)
    turns = [(kinds[(place + turn) % 2], service) for turn in (0, 1) for place, service in enumerate(services)]
    turns = [(kind, service) for kind, service in turns if kind in targets.kinds]
    is_cut = Cut in targets.kinds and any(LEADER in service for service in services)
    while turns or is_cut:
        for kind, service in turns:
            yield kind(random.choice(service), make.seconds() if kind is Kill else make.long_seconds())
        if is_cut:
            yield Cut(LEADER, LEASES, make.long_seconds())


def _by_kind(random: Random, targets: Targets) -> Iterator[Fault]:
    """Each kind in turn, and each of its targets before one of them comes again."""
    make = _FaultMakers(random, targets)
    turns: dict[type[Fault], Iterator[Fault]] = {
        Kill: make.each(targets.killed, Kill),
        Stop: make.each(targets.stopped, Stop),
        FillDisk: make.each(DATABASES, FillDisk),
        Cut: make.each(targets.links, lambda link, seconds: Cut(*link, seconds)),
        Slow: make.each(targets.links, lambda link, seconds: Slow(*link, random.choice(LATE_MILLISECONDS), seconds)),
        BreakQueries: make.always(lambda: BreakQueries(random.choice(ANSWERED_KILOBYTES), make.seconds())),
        FailCalls: make.always(lambda: FailCalls(FAILING_SHARE, make.seconds())),
        FailQueries: make.always(lambda: FailQueries(random.choice(FAILING_QUERIES), make.seconds())),
        ResetConnector: make.always(ResetConnector),
        KillAll: make.always(KillAll),
        StepClock: make.each(
            targets.clocks, lambda process, seconds: StepClock(process, random.choice(CLOCK_STEPS), seconds)
        ),
        RestoreBackup: make.always(lambda: RestoreBackup(make.seconds())),
    }
    while True:
        yield from (next(turns[kind]) for kind in random.sample(targets.kinds, len(targets.kinds)))


class _FaultMakers:
    """Endless faults of one kind."""

    def __init__(self, random: Random, targets: Targets) -> None:
        self._random, self._targets = random, targets

    def seconds(self) -> float:
        """How long one lasts."""
        return round(self._random.uniform(*self._targets.seconds), 1)

    def long_seconds(self) -> float:
        """How long one lasts that is over when others have taken over."""
        least, (_, most) = self._targets.outlasting, self._targets.seconds
        return round(self._random.uniform(least, max(least * LONG_AT_MOST, most)), 1)

    def each(self, targets: Sequence[T], make: Callable[[T, float], Fault]) -> Iterator[Fault]:
        """Of one target after the other: at first of those that come first, then in an order that differs each time."""
        order = self._targets.first
        first = sorted((target for target in targets if target in order), key=order.index)
        rest = [target for target in targets if target not in first]
        turn = [*self._rotated(first), *self._random.sample(rest, len(rest))]
        while True:
            for target in turn:
                yield make(target, self.seconds())
            turn = self._random.sample(targets, len(targets))

    def _rotated(self, targets: Sequence[T]) -> Sequence[T]:
        """In their order, but not always from the same on: few faults of a seed hit others than those of another."""
        start = self._random.randrange(len(targets)) if targets else 0
        return [*targets[start:], *targets[:start]]

    def always(self, make: Callable[[], Fault]) -> Iterator[Fault]:
        """Of one that has no target."""
        while True:
            yield make()


def overlapping(random: Random, faults: Sequence[Fault]) -> Iterator[tuple[Step, ...]]:
    """Most at a place of their own, some two at one; what comes after one that takes long begins while it goes on."""
    left = list(faults)
    while left:
        one = left.pop(0)
        if takes_long(one):
            yield (one,)
            for _ in range(BESIDE_LONG):
                if left and may_overlap(one, left[0]):
                    yield Meanwhile(), left.pop(0)
        elif left and may_overlap(one, left[0]) and not takes_long(left[0]) and random.randrange(OVERLAPPING) == 0:
            yield one, Meanwhile(), left.pop(0)
        else:
            yield (one,)
