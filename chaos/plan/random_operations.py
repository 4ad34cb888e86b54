"""Operations by chance, endlessly: what users and an intruder do to tenants. Pure, as :mod:`generate` is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import get_args

from chaos.plan.operations import (
    REFUSED_PATHS,
    AskForSync,
    CustomKind,
    EngineKind,
    Forge,
    Meddle,
    Operation,
    Promote,
    PutAppEnvironment,
    PutBinding,
    PutCredential,
    PutDeployment,
    PutEnvironment,
    PutKubeconfig,
    PutLogin,
    PutRefused,
    PutSnapshot,
    RemakeNamespace,
    Remove,
    UserKind,
)
from chaos.plan.size import Size, Targets

DEPLOYMENTS = tuple(f"d{number}" for number in range(6))
STEADY = ("s0", "s1")
"""Deployments that are always manual and that nobody touches: each run of one must succeed, exactly once."""
STEADY_PATH = "apps/0"
"""Of them, and of what AppStudio's bindings deploy."""
ENVIRONMENTS = ("e0", "e1")
CREDENTIALS = ("c0", "c1")
COMPONENTS = ("api", "web")
"""Of the one application of each tenant."""
PROMOTED_TO = "dev"
"""An Environment of AppStudio that nobody removes: each promotion to it must succeed."""
BINDINGS = {"dev-a": PROMOTED_TO, "dev-b": PROMOTED_TO, "qa-a": "qa"}
"""Bindings, and the Environment of each: of two of the same the older is in force."""
SNAPSHOTS = ("one", "two")
"""That nobody removes."""
REPOSITORIES = 3
OVER_SSH = REPOSITORIES - 1
"""Which of the repositories that credentials are for is reached by ssh."""
GOOD_TOKENS = 3
SLOTS = 4
"""Of forged objects; half of them in each of two engine namespaces, in four kinds: an agent takes ten for few."""
ENGINE_KINDS: tuple[EngineKind, ...] = get_args(EngineKind)
WEB, WEB_2 = "web", "web-2"
"""Namespaces of environments; deployments go to the first."""
RESTLESS = 4
"""One in so many tenants loses its namespace, and has its projects meddled with: of these no run is left, or sure."""
WRONG_LOGINS = 4
"""One in so many logins opens nothing."""
REFUSED = 12
"""One in so many specs of deployments has a path that the CRD takes, and that is refused."""
RUNS = 150
"""That a tenant has at a time, at most: its quota is 200."""


def random_operations(random: Random, size: Size, targets: Targets) -> Iterator[Operation]:
    """First what most of the others build on, for each tenant; then anything."""
    for tenant in range(size.tenants):
        yield PutKubeconfig(tenant, 0)
        yield PutEnvironment(tenant, "e0")
        yield PutLogin(tenant, 0)
        yield PutCredential(tenant, "c0", tenant % REPOSITORIES)
        yield from _steady(tenant)
    makers = _makers(targets, _Syncs(), _Promotions())
    kinds, weights = list(makers), [weight for weight, _ in makers.values()]
    while True:
        chosen = random.choices(kinds, weights)[0]
        yield (operation := makers[chosen][1](random, random.randrange(size.tenants)))
        if isinstance(operation, RemakeNamespace):
            yield from _steady(operation.tenant)


def _steady(tenant: int) -> Iterator[Operation]:
    for name in STEADY:
        yield PutDeployment(tenant, name, repository=0, path=STEADY_PATH, revision="", automated=False)
    for name in SNAPSHOTS:
        yield PutSnapshot(tenant, name)
    yield PutAppEnvironment(tenant, PROMOTED_TO)


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


class _Promotions:
    """Likewise; one in four is taken back, whether or not it is over."""

    def __init__(self) -> None:
        self._asked: dict[int, list[str]] = {}
        self._number = count()

    def make(self, random: Random, tenant: int) -> Operation:
        asked = self._asked.setdefault(tenant, [])
        if asked and _one_in(random, 4):
            return Remove(tenant, "promotion", asked.pop(random.randrange(len(asked))))
        asked.append(f"p{next(self._number)}")
        return Promote(tenant, asked[-1], PROMOTED_TO, random.choice(SNAPSHOTS))


Maker = Callable[[Random, int], Operation]


def _makers(targets: Targets, syncs: _Syncs, promotions: _Promotions) -> dict[str, tuple[int, Maker]]:
    """What may be done, how often, and how one is chosen."""
    return {
        "deployment": (40, lambda random, tenant: _deployment(random, tenant, targets)),
        "sync": (60, syncs.make),
        "environment": (5, _environment),
        "kubeconfig": (5, _kubeconfig),
        "login": (3, _login),
        "credential": (4, _credential),
        "refused": (3, _refused),
        "app environment": (2, _app_environment),
        "binding": (12, _binding),
        "promotion": (6, promotions.make),
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


def _app_environment(random: Random, tenant: int) -> PutAppEnvironment:
    return PutAppEnvironment(
        tenant, random.choice(sorted({*BINDINGS.values()} - {PROMOTED_TO})), afresh=_one_in(random, 3)
    )


def _binding(random: Random, tenant: int) -> PutBinding:
    name = random.choice(tuple(BINDINGS))
    components = COMPONENTS if _one_in(random, 2) else (random.choice(COMPONENTS),)
    return PutBinding(tenant, name, BINDINGS[name], random.choice(SNAPSHOTS), components, afresh=_one_in(random, 5))


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
    kind = random.choices(get_args(UserKind), [16, 1, 2, 1, 1, 1, 1, 4])[0]
    match kind:
        case "deployment":
            return Remove(tenant, "deployment", random.choice(DEPLOYMENTS))
        case "environment":
            return Remove(tenant, "environment", random.choice(ENVIRONMENTS))
        case "credential":
            return Remove(tenant, "credential", random.choice(CREDENTIALS))
        case "app environment":
            return Remove(tenant, "app environment", "qa")
        case "binding":
            return Remove(tenant, "binding", random.choice(tuple(BINDINGS)))
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
