"""How much a tenant may have, and who is within that: the oldest, for as long as they stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from services.planner.kinds.names import (
    GITOPS_DEPLOYMENT,
    MANAGED_ENVIRONMENT,
    REPOSITORY_CREDENTIAL,
    SECRET,
    SYNC_RUN,
)

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one tenant."""

    deployments: int = 1000
    environments: int = 100
    destinations: int = 2000
    """Namespaces that all environments list together; a whole cluster counts as one. They are one AppProject."""
    credentials: int = 100
    sync_runs: int = 200
    secrets: int = 200
    bytes: int = 16 * MEBIBYTE
    """Of all specs and sealed Secrets together."""

    def of(self, kind: str) -> int:
        """How many resources of ``kind``."""
        return {
            GITOPS_DEPLOYMENT: self.deployments,
            MANAGED_ENVIRONMENT: self.environments,
            REPOSITORY_CREDENTIAL: self.credentials,
            SYNC_RUN: self.sync_runs,
            SECRET: self.secrets,
        }[kind]

    def message(self, kind: str) -> str:
        """What the user of a resource beyond the limits is told."""
        listed = f", {self.destinations} namespaces listed in them" if kind == MANAGED_ENVIRONMENT else ""
        return (
            f"quota exceeded: this namespace may have {self.of(kind)} {kind}s{listed}, and {self.bytes // MEBIBYTE} "
            "MiB of specs and Secrets in all; delete some, or ask the operator for more"
        )


@dataclass(frozen=True, slots=True)
class Share:
    """What a resource takes up besides being one of its kind."""

    bytes: int = 0
    """Of its spec."""
    destinations: int = 0
    """Namespaces that its tenant's AppProject lists because of it."""

    def __add__(self, other: Share) -> Share:
        return Share(self.bytes + other.bytes, self.destinations + other.destinations)

    def __sub__(self, other: Share) -> Share:
        return Share(self.bytes - other.bytes, self.destinations - other.destinations)


@dataclass(frozen=True, slots=True)
class Claim:
    """A resource that wants room."""

    id: UUID
    kind: str
    created_at: int
    """Milliseconds since 1970."""
    name: str
    size: Share
    """As it is now."""
    admitted: Share | None = None
    """As it was admitted; None if it was not, or is new."""
    held: Share | None = None
    """What stays in force of it even if it is refused; None if nothing does."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What is taken up by others than the claims."""

    counts: Mapping[str, int] = field(default_factory=dict)
    share: Share = field(default_factory=Share)


def over_quota(claims: Iterable[Claim], limits: Limits, taken: Taken | None = None) -> frozenset[UUID]:
    """Those of ``claims``, all of one tenant, for which there is no room.

    Whoever is admitted stays, even beyond a limit that was lowered, unless it outgrows the room itself. What is refused
    and still in force takes up what it holds. Room is given to the oldest first; one that is too large does not keep
    smaller ones out.
    """
    room = _Room(limits, taken or Taken())
    oldest_first = sorted(claims, key=lambda claim: (claim.created_at, claim.name, claim.id))
    admitted = [claim for claim in oldest_first if claim.admitted is not None]
    waiting = [claim for claim in oldest_first if claim.admitted is None]
    for claim in oldest_first:
        room.take(claim.kind, claim.admitted or claim.held)
    outgrown = frozenset(claim.id for claim in admitted if not room.resize(claim))
    return outgrown | frozenset(claim.id for claim in waiting if not room.admit(claim))


class _Room:
    """What is left while claims are looked at in turn."""

    def __init__(self, limits: Limits, taken: Taken) -> None:
        self._limits = limits
        self._counts = Counter(taken.counts)
        self._taken = taken.share

    def take(self, kind: str, share: Share | None) -> None:
        """For good; None takes nothing."""
        if share is not None:
            self._counts[kind] += 1
            self._taken += share

    def leave(self, kind: str, share: Share | None) -> None:
        """Undo what was taken."""
        if share is not None:
            self._counts[kind] -= 1
            self._taken -= share

    def resize(self, claim: Claim) -> bool:
        """An admitted resource is of another size now; it keeps what is in force if it has grown beyond the room."""
        self.leave(claim.kind, claim.admitted)
        stays = self._fits(claim.size, claim.admitted or Share())
        self.take(claim.kind, claim.size if stays else claim.held)
        return stays

    def admit(self, claim: Claim) -> bool:
        """One that was not admitted before."""
        self.leave(claim.kind, claim.held)
        counts = claim.held is not None or self._counts[claim.kind] < self._limits.of(claim.kind)
        fits = counts and self._fits(claim.size, claim.held or Share())
        self.take(claim.kind, claim.size if fits else claim.held)
        return fits

    def _fits(self, share: Share, before: Share) -> bool:
        """Beside all others; what does not grow always does."""
        now = self._taken + share
        few = share.destinations <= before.destinations or now.destinations <= self._limits.destinations
        return few and (share.bytes <= before.bytes or now.bytes <= self._limits.bytes)
