"""Operations on AppStudio's kinds by chance: what a tenant's one application consists of, and where it goes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Literal

from chaos.plan.chance import one_in, restless
from chaos.plan.operations import (
    Operation,
    Promote,
    PutAppEnvironment,
    PutBinding,
    PutClaim,
    PutClass,
    PutPreview,
    PutSnapshot,
    PutTarget,
    Remove,
)

COMPONENTS = ("api", "web")
"""Of the one application of each tenant."""
PROMOTED_TO = "dev"
"""An Environment that nobody removes: each promotion to it must succeed, but for those of a foreign snapshot."""
AUTOMATED = {"stage": PROMOTED_TO, "prod": "stage"}
"""Environments that follow when a promotion to their parent has succeeded. Nobody removes them either."""
SNAPSHOTS = ("one", "two", "three")
"""That nobody removes."""
REMOVED_SNAPSHOT = "four"
"""One that comes and goes: for as long as it is away, whoever promotes it waits, and so do others after that."""
FOREIGN_SNAPSHOT = "foreign"
"""One of another application, that nobody removes: each promotion of it must fail, and hold up no other one."""
FOREIGN = 4
"""One promotion in so many is of that."""
PREVIEW_SECONDS = (1, 20)
"""For which previews are there, at least and at most."""

SANDBOX, SANDBOX_KEPT, CHANGING = "sandbox", "sandbox-kept", "changing"
"""Classes whose targets are made on demand. Of the last one the policy changes."""
OWN, OWN_KEPT = "own", "own-kept"
"""Classes whose targets are users'."""
POLICIES: dict[str, Literal["Delete", "Retain"]] = {
    SANDBOX: "Delete",
    SANDBOX_KEPT: "Retain",
    CHANGING: "Delete",
    OWN: "Delete",
    OWN_KEPT: "Retain",
}
"""What becomes of a target after its claim, by its class; in the beginning."""
MADE_ON_DEMAND = (SANDBOX, SANDBOX_KEPT, CHANGING)
TARGETS = {"t0": (OWN, ""), "t1": (OWN_KEPT, ""), "t2": (OWN_KEPT, ""), "t3": (OWN_KEPT, "any-b")}
"""Class of each that users make, and the claim that it is kept for."""
CLAIMS = {
    "box": (SANDBOX, ""),
    "kept": (SANDBOX_KEPT, ""),
    "changing": (CHANGING, ""),
    "first": (OWN, "t0"),
    "rival": (OWN, "t0"),
    "any-a": (OWN_KEPT, ""),
    "any-b": (OWN_KEPT, ""),
}
"""Class of each, and the target that it names. Two want the same one."""
CLAIMED: dict[str, tuple[str, ...]] = {"box": ("box", "changing", ""), "own": ("first", "any-a", "any-b", "kept")}
"""Environments, and the claims that each is on in turn."""
BINDINGS = {"dev-a": PROMOTED_TO, "dev-b": PROMOTED_TO, "qa-a": "qa", "box-a": "box", "own-a": "own"}
"""Bindings, and the Environment of each: of two of the same the older is in force."""

ApplicationKind = Literal["app environment", "binding", "claim", "target"]
Maker = Callable[[Random, int], Operation]


def steady_applications(tenant: int) -> list[Operation]:
    """What is there of each tenant's before anything else."""
    return [
        *(PutSnapshot(tenant, name) for name in SNAPSHOTS),
        PutSnapshot(tenant, FOREIGN_SNAPSHOT, is_foreign=True),
        PutAppEnvironment(tenant, PROMOTED_TO),
        *(PutAppEnvironment(tenant, name, parent=parent) for name, parent in AUTOMATED.items()),
        PutClaim(tenant, "box", SANDBOX),
        PutAppEnvironment(tenant, "box", claim="box"),
        PutBinding(tenant, "box-a", "box", SNAPSHOTS[0], COMPONENTS),
        PutTarget(tenant, "t0", *TARGETS["t0"]),
    ]


class Applications:
    """Promotions and previews have names of their own.

    One in four promotions is taken back, whether or not it is over. Half are automated. Of a snapshot that comes and
    goes only a few tenants have promotions: those of others must all end, with failure if the snapshot is foreign.
    """

    def __init__(self) -> None:
        self._asked: dict[int, list[str]] = {}
        self._number = count()
        makers: dict[Maker, int] = {
            _environment: 4,
            _binding: 12,
            self._promotion: 6,
            _claim: 4,
            _target: 3,
            _class: 1,
            self._preview: 2,
            self._removed_snapshot: 1,
        }
        self._makers, self._weights = list(makers), list(makers.values())

    def make(self, random: Random, tenant: int) -> Operation:
        """One of a tenant."""
        return random.choices(self._makers, self._weights)[0](random, tenant)

    def _promotion(self, random: Random, tenant: int) -> Operation:
        asked = self._asked.setdefault(tenant, [])
        if asked and one_in(random, 4):
            return Remove(tenant, "promotion", asked.pop(random.randrange(len(asked))))
        number = next(self._number)
        asked.append(f"p{number}")
        known = (*SNAPSHOTS, REMOVED_SNAPSHOT) if restless(tenant) == tenant else SNAPSHOTS
        chosen = random.choice(known)
        snapshot = FOREIGN_SNAPSHOT if number % FOREIGN == 1 else chosen
        return Promote(tenant, asked[-1], PROMOTED_TO, snapshot, automated=one_in(random, 2))

    def _preview(self, random: Random, tenant: int) -> PutPreview:
        name, seconds = f"v{next(self._number)}", random.randint(*PREVIEW_SECONDS)
        return PutPreview(tenant, name, SANDBOX, random.choice(SNAPSHOTS), _components(random), seconds)

    @staticmethod
    def _removed_snapshot(random: Random, tenant: int) -> Operation:
        tenant = restless(tenant)
        if one_in(random, 2):
            return Remove(tenant, "snapshot", REMOVED_SNAPSHOT)
        return PutSnapshot(tenant, REMOVED_SNAPSHOT)


def applications_removal(random: Random, tenant: int, kind: ApplicationKind) -> Remove:
    """Of one of these kinds. Users remove what was made on demand, too."""
    made = tuple(f"{name}-dt" for name, (class_name, _) in CLAIMS.items() if class_name in MADE_ON_DEMAND)
    names = {
        "app environment": ("qa", *CLAIMED),
        "binding": tuple(BINDINGS),
        "claim": tuple(CLAIMS),
        "target": (*TARGETS, *made),
    }
    return Remove(tenant, kind, random.choice(names[kind]))


def _environment(random: Random, tenant: int) -> PutAppEnvironment:
    name = random.choice(("qa", *CLAIMED))
    return PutAppEnvironment(tenant, name, afresh=one_in(random, 3), claim=random.choice(CLAIMED.get(name, ("",))))


def _binding(random: Random, tenant: int) -> PutBinding:
    name = random.choice(tuple(BINDINGS))
    snapshot, is_afresh = random.choice(SNAPSHOTS), one_in(random, 5)
    return PutBinding(tenant, name, BINDINGS[name], snapshot, _components(random), afresh=is_afresh)


def _components(random: Random) -> tuple[str, ...]:
    return COMPONENTS if one_in(random, 2) else (random.choice(COMPONENTS),)


def _claim(random: Random, tenant: int) -> PutClaim:
    name = random.choice(tuple(CLAIMS))
    return PutClaim(tenant, name, *CLAIMS[name], afresh=one_in(random, 3))


def _target(random: Random, tenant: int) -> PutTarget:
    name = random.choice(tuple(TARGETS))
    return PutTarget(tenant, name, *TARGETS[name], afresh=one_in(random, 3))


def _class(random: Random, tenant: int) -> PutClass:
    return PutClass(tenant, CHANGING, random.choice(("Delete", "Retain")))
