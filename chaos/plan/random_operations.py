"""Operations by chance, endlessly: what users, an intruder and an operator do. Pure, as :mod:`generate` is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import get_args

from chaos.plan.chance import one_in, restless
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
from chaos.plan.random_applications import Applications, applications_removal, steady_applications
from chaos.plan.random_fleet import Emptied, move
from chaos.plan.size import Size, Targets

DEPLOYMENTS = tuple(f"d{number}" for number in range(6))
STEADY = ("s0", "s1")
"""Deployments that are always manual and that nobody touches: each run of one must succeed, exactly once."""
STEADY_PATH = "apps/0"
ENVIRONMENTS = ("e0", "e1")
CREDENTIALS = ("c0", "c1")
REPOSITORIES = 3
OVER_SSH = REPOSITORIES - 1
"""Which of the repositories that credentials are for is reached by ssh."""
GOOD_TOKENS = 3
SLOTS = 4
"""Of forged objects; half of them in each of two engine namespaces, in four kinds: an agent takes ten for few."""
ENGINE_KINDS: tuple[EngineKind, ...] = get_args(EngineKind)
WEB, WEB_2 = "web", "web-2"
"""Namespaces of environments; deployments go to the first."""
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
    makers = _makers(targets, _Syncs())
    kinds, weights = list(makers), [weight for weight, _ in makers.values()]
    while True:
        chosen = random.choices(kinds, weights)[0]
        yield (operation := makers[chosen][1](random, random.randrange(size.tenants)))
        if isinstance(operation, RemakeNamespace):
            yield from _steady(operation.tenant)


def _steady(tenant: int) -> Iterator[Operation]:
    for name in STEADY:
        yield PutDeployment(tenant, name, repository=0, path=STEADY_PATH, revision="", automated=False)
    yield from steady_applications(tenant)


class _Syncs:
    """Runs have names of their own, and one in eight that was asked for is taken back. Most are of steady ones."""

    def __init__(self) -> None:
        self._asked: dict[int, list[str]] = {}
        self._number = count()

    def make(self, random: Random, tenant: int) -> Operation:
        asked = self._asked.setdefault(tenant, [])
        if len(asked) >= RUNS:
            return Remove(tenant, "run", asked.pop(0))
        if asked and one_in(random, 8):
            return Remove(tenant, "run", random.choice(asked[-4:]))
        asked.append(f"r{next(self._number)}")
        return AskForSync(tenant, asked[-1], random.choice(DEPLOYMENTS if one_in(random, 6) else STEADY))


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
        "application": (32, Applications().make),
        "remove": (14, _removal),
        "namespace": (1, lambda _, tenant: RemakeNamespace(restless(tenant))),
        "meddle": (10, _meddling),
        "forge": (4, _forgery),
        "move": (6, move),
        "empty": (2, Emptied().make),
    }


def _deployment(random: Random, tenant: int, targets: Targets) -> PutDeployment:
    environment = random.choice(ENVIRONMENTS) if one_in(random, 3) else ""
    return PutDeployment(
        tenant,
        random.choice(DEPLOYMENTS),
        repository=random.randrange(REPOSITORIES),
        path=random.choice(REFUSED_PATHS if one_in(random, REFUSED) else targets.paths),
        revision=random.choice(("", "main", "v1")),
        automated=one_in(random, 2),
        environment=environment,
        creates_namespace=one_in(random, 5),
        finalizer=one_in(random, 5),
        afresh=one_in(random, 5),
    )


def _environment(random: Random, tenant: int) -> PutEnvironment:
    return PutEnvironment(
        tenant,
        random.choice(ENVIRONMENTS),
        namespaces=random.choice(((), (WEB,), (WEB, WEB_2))),
        cluster_resources=one_in(random, 3),
        creates_account=one_in(random, 3),
        afresh=one_in(random, 5),
    )


def _refused(random: Random, tenant: int) -> PutRefused:
    names: dict[CustomKind, tuple[str, ...]]
    names = {"deployment": DEPLOYMENTS + STEADY, "environment": ENVIRONMENTS, "credential": CREDENTIALS}
    kind = random.choice(tuple(names))
    return PutRefused(tenant, kind, random.choice(names[kind]))


def _kubeconfig(random: Random, tenant: int) -> PutKubeconfig:
    """One of seven times with a token that the cluster does not know."""
    return PutKubeconfig(tenant, GOOD_TOKENS if one_in(random, 7) else random.randrange(GOOD_TOKENS))


def _login(random: Random, tenant: int) -> PutLogin:
    return PutLogin(tenant, random.randrange(1, 3) if one_in(random, WRONG_LOGINS) else 0)


def _credential(random: Random, tenant: int) -> PutCredential:
    return PutCredential(tenant, random.choice(CREDENTIALS), random.randrange(REPOSITORIES), afresh=one_in(random, 5))


def _removal(random: Random, tenant: int) -> Remove:
    kind = random.choices(get_args(UserKind), [16, 1, 2, 1, 1, 1, 2, 4, 2, 1, 0])[0]
    match kind:
        case "deployment":
            return Remove(tenant, "deployment", random.choice(DEPLOYMENTS))
        case "environment":
            return Remove(tenant, "environment", random.choice(ENVIRONMENTS))
        case "credential":
            return Remove(tenant, "credential", random.choice(CREDENTIALS))
        case "app environment" | "binding" | "claim" | "target":
            return applications_removal(random, tenant, kind)
        case _:
            return Remove(tenant, kind, "")


def _meddling(random: Random, tenant: int) -> Meddle:
    kind = random.choices(ENGINE_KINDS, [6, 2, 2, 2])[0]
    if kind == "project":
        tenant = restless(tenant)
    how = random.choice(["edit", "delete", "unlabel"])
    owners = {"cluster-secret": ENVIRONMENTS, "repository-secret": CREDENTIALS}
    return Meddle(tenant, kind, random.choice(owners.get(kind, DEPLOYMENTS)), how)  # type: ignore[arg-type]


def _forgery(random: Random, tenant: int) -> Forge:
    return Forge(tenant, random.choice(ENGINE_KINDS), random.randrange(SLOTS), ours=one_in(random, 2))
