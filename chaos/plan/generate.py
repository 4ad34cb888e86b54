"""From a seed to a plan. Pure: the same seed and size make the same plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random
from typing import TypeVar, get_args

from chaos.plan.faults import (
    FAULTS,
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
from chaos.plan.operations import (
    REFUSED_PATHS,
    AskForSync,
    CustomKind,
    EngineKind,
    Forge,
    Meddle,
    Operation,
    PutCredential,
    PutDeployment,
    PutEnvironment,
    PutKubeconfig,
    PutLogin,
    PutRefused,
    RemakeNamespace,
    Remove,
    UserKind,
)
from chaos.plan.plan import Plan, Step

T = TypeVar("T")

DEPLOYMENTS = tuple(f"d{number}" for number in range(6))
STEADY = ("s0", "s1")
"""Deployments that are always manual and that nobody touches: each run of one must succeed, exactly once."""
ENVIRONMENTS = ("e0", "e1")
CREDENTIALS = ("c0", "c1")
REPOSITORIES, PATHS = 3, 4
OVER_SSH = REPOSITORIES - 1
"""Which of the repositories that credentials are for is reached by ssh."""
GOOD_TOKENS = 3
FAILING_SHARE = 0.2
FAILING_QUERIES = (0.02, 0.2)
"""Shares. A batch is some ten queries in one transaction: of those with one in five hardly any succeeds."""
LATE_MILLISECONDS = (50, 200, 1000)
CLOCK_STEPS = (-3600, -60, -5, 5, 60, 3600)
ANSWERED_KILOBYTES = (1, 16, 128)
DATABASES = ("kafka", "postgres")
SLOTS = 4
"""Of forged objects; half of them in each of two engine namespaces, in four kinds: an agent takes ten for few."""
ENGINE_KINDS: tuple[EngineKind, ...] = get_args(EngineKind)
WEB, WEB_2 = "web", "web-2"
"""Namespaces of environments; deployments go to the first."""
RESTLESS = 4
"""One in so many tenants loses its namespace, and has its projects meddled with: of these no run is left, or sure."""
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
WRONG_LOGINS = 4
"""One in so many logins opens nothing."""
REFUSED = 12
"""One in so many specs of deployments has a path that the CRD takes, and that is refused."""
RUNS = 150
"""That a tenant has at a time, at most: its quota is 200."""


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


def generate(seed: int, size: Size, targets: Targets) -> Plan:
    """The plan of ``seed``. Its faults do not depend on what is done meanwhile."""
    of_users, of_faults = Random(seed), Random(f"faults of {seed}")  # noqa: S311 - to be repeated, not to be secret
    operations = list(islice(_operations(of_users, size, targets), size.operations))
    faults = list(_overlapping(of_faults, list(islice(_faults(of_faults, targets), size.faults))))
    return Plan(seed, tuple(_spread(operations, faults)))


def _overlapping(random: Random, faults: Sequence[Fault]) -> Iterator[tuple[Step, ...]]:
    """Most at a place of their own, some two at one; what comes after one that takes long begins while it goes on."""
    left = list(faults)
    while left:
        one = left.pop(0)
        if takes_long(one):
            yield (one,)
            for _ in range(BESIDE_LONG):
                if left and may_overlap(one, left[0]):
                    yield Meanwhile(), left.pop(0)
        elif left and may_overlap(one, left[0]) and not takes_long(left[0]) and _one_in(random, OVERLAPPING):
            yield one, Meanwhile(), left.pop(0)
        else:
            yield (one,)


def _spread(operations: list[Operation], faults: list[tuple[Step, ...]]) -> Iterator[Step]:
    """The first faults come when there is something to lose, the last before the end."""
    distance = len(operations) / (len(faults) + 1)
    due = {round(distance * (number + 1)): number for number in range(len(faults))}
    for position, operation in enumerate(operations):
        if position in due:
            yield from faults[due[position]]
        yield operation


def _faults(random: Random, targets: Targets) -> Iterator[Fault]:
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


def _operations(random: Random, size: Size, targets: Targets) -> Iterator[Operation]:
    """First what most of the others build on, for each tenant; then anything."""
    for tenant in range(size.tenants):
        yield PutKubeconfig(tenant, 0)
        yield PutEnvironment(tenant, "e0")
        yield PutLogin(tenant, 0)
        yield PutCredential(tenant, "c0", tenant % REPOSITORIES)
        yield from _steady(tenant)
    makers = _makers(targets, _Syncs())
    kinds, weights = list(makers), [weight for weight, _ in makers.values()]
    while True:
        chosen = random.choices(kinds, weights)[0]
        yield (operation := makers[chosen][1](random, random.randrange(size.tenants)))
        if isinstance(operation, RemakeNamespace):
            yield from _steady(operation.tenant)


def _steady(tenant: int) -> Iterator[Operation]:
    for name in STEADY:
        yield PutDeployment(tenant, name, repository=0, path="apps/0", revision="", automated=False)


class _Syncs:
    """Runs have names of their own, and one in eight that was asked for is taken back. Most are of steady ones."""

    def __init__(self) -> None:
        self._asked: dict[int, list[str]] = {}
        self._number = count()

    def make(self, random: Random, tenant: int) -> Operation:
        asked = self._asked.setdefault(tenant, [])
        if len(asked) >= RUNS:
            return Remove(tenant, "run", asked.pop(0))
        if asked and _one_in(random, 8):
            return Remove(tenant, "run", random.choice(asked[-4:]))
        asked.append(f"r{next(self._number)}")
        return AskForSync(tenant, asked[-1], random.choice(DEPLOYMENTS if _one_in(random, 6) else STEADY))


Maker = Callable[[Random, int], Operation]


def _makers(targets: Targets, syncs: _Syncs) -> dict[str, tuple[int, Maker]]:
    """What may be done, how often, and how one is chosen."""
    return {
        "deployment": (40, lambda random, tenant: _deployment(random, tenant, targets)),
        "sync": (60, syncs.make),
        "environment": (5, _environment),
        "kubeconfig": (5, _kubeconfig),
        "login": (3, _login),
        "credential": (4, _credential),
        "refused": (3, _refused),
        "remove": (14, _removal),
        "namespace": (1, lambda _, tenant: RemakeNamespace(_restless(tenant))),
        "meddle": (10, _meddling),
        "forge": (4, _forgery),
    }


def _deployment(random: Random, tenant: int, targets: Targets) -> PutDeployment:
    environment = random.choice(ENVIRONMENTS) if _one_in(random, 3) else ""
    return PutDeployment(
        tenant,
        random.choice(DEPLOYMENTS),
        repository=random.randrange(REPOSITORIES),
        path=random.choice(REFUSED_PATHS if _one_in(random, REFUSED) else targets.paths),
        revision=random.choice(("", "main", "v1")),
        automated=_one_in(random, 2),
        environment=environment,
        creates_namespace=_one_in(random, 5),
        finalizer=_one_in(random, 5),
        afresh=_one_in(random, 5),
    )


def _environment(random: Random, tenant: int) -> PutEnvironment:
    return PutEnvironment(
        tenant,
        random.choice(ENVIRONMENTS),
        namespaces=random.choice(((), (WEB,), (WEB, WEB_2))),
        cluster_resources=_one_in(random, 3),
        creates_account=_one_in(random, 3),
        afresh=_one_in(random, 5),
    )


def _refused(random: Random, tenant: int) -> PutRefused:
    names: dict[CustomKind, tuple[str, ...]]
    names = {"deployment": DEPLOYMENTS + STEADY, "environment": ENVIRONMENTS, "credential": CREDENTIALS}
    kind = random.choice(tuple(names))
    return PutRefused(tenant, kind, random.choice(names[kind]))


def _kubeconfig(random: Random, tenant: int) -> PutKubeconfig:
    """One of seven times with a token that the cluster does not know."""
    return PutKubeconfig(tenant, GOOD_TOKENS if _one_in(random, 7) else random.randrange(GOOD_TOKENS))


def _login(random: Random, tenant: int) -> PutLogin:
    return PutLogin(tenant, random.randrange(1, 3) if _one_in(random, WRONG_LOGINS) else 0)


def _credential(random: Random, tenant: int) -> PutCredential:
    return PutCredential(tenant, random.choice(CREDENTIALS), random.randrange(REPOSITORIES), afresh=_one_in(random, 5))


def _removal(random: Random, tenant: int) -> Remove:
    kinds: list[UserKind] = ["deployment", "environment", "credential", "kubeconfig", "login", "key"]
    kind = random.choices(kinds, [16, 1, 2, 1, 1, 1])[0]
    match kind:
        case "deployment":
            return Remove(tenant, "deployment", random.choice(DEPLOYMENTS))
        case "environment":
            return Remove(tenant, "environment", random.choice(ENVIRONMENTS))
        case "credential":
            return Remove(tenant, "credential", random.choice(CREDENTIALS))
        case _:
            return Remove(tenant, kind, "")


def _meddling(random: Random, tenant: int) -> Meddle:
    kind = random.choices(ENGINE_KINDS, [6, 2, 2, 2])[0]
    if kind == "project":
        tenant = _restless(tenant)
    how = random.choice(["edit", "delete", "unlabel"])
    owners = {"cluster-secret": ENVIRONMENTS, "repository-secret": CREDENTIALS}
    return Meddle(tenant, kind, random.choice(owners.get(kind, DEPLOYMENTS)), how)  # type: ignore[arg-type]


def _forgery(random: Random, tenant: int) -> Forge:
    return Forge(tenant, random.choice(ENGINE_KINDS), random.randrange(SLOTS), ours=_one_in(random, 2))


def _restless(tenant: int) -> int:
    """The tenant that has this one's share of what leaves no run to judge."""
    return tenant - tenant % RESTLESS


def _one_in(random: Random, number: int) -> bool:
    """True so often."""
    return random.randrange(number) == 0
