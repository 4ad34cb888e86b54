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
        return (
            f"quota exceeded: this namespace may have {self.of(kind)} {kind}s, and {self.bytes // MEBIBYTE} MiB of "
            "specs and Secrets in all; delete some, or ask the operator for more"
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """A resource that wants room."""

    id: UUID
    kind: str
    created_at: int
    """Milliseconds since 1970."""
    name: str
    size: int
    """Bytes of its spec as it is now."""
    admitted: int | None = None
    """Bytes of the spec with which it was admitted; None if it was not, or is new."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What admitted resources that are not among the claims take up."""

    counts: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0


def over_quota(claims: Iterable[Claim], limits: Limits, taken: Taken | None = None) -> frozenset[UUID]:
    """Those of ``claims``, all of one tenant, for which there is no room.

    Whoever is admitted stays, even beyond a limit that was lowered, unless it outgrows the room itself. Room is given
    to the oldest first; one that is too large does not keep smaller ones out.
    """
    room = _Room(limits, taken or Taken())
    oldest_first = sorted(claims, key=lambda claim: (claim.created_at, claim.name, claim.id))
    admitted = [claim for claim in oldest_first if claim.admitted is not None]
    waiting = [claim for claim in oldest_first if claim.admitted is None]
    for claim in admitted:
        room.take(claim.kind, claim.admitted or 0)
    outgrown = frozenset(claim.id for claim in admitted if not room.resize(claim))
    return outgrown | frozenset(claim.id for claim in waiting if not room.admit(claim))


class _Room:
    """What is left while claims are looked at in turn."""

    def __init__(self, limits: Limits, taken: Taken) -> None:
        self._limits = limits
        self._counts = Counter(taken.counts)
        self._bytes = taken.bytes

    def take(self, kind: str, size: int) -> None:
        self._counts[kind] += 1
        self._bytes += size

    def resize(self, claim: Claim) -> bool:
        """An admitted resource is of another size now; it leaves if it has grown beyond what is there."""
        before = claim.admitted or 0
        rest = self._bytes - before
        stays = claim.size <= before or rest + claim.size <= self._limits.bytes
        self._counts[claim.kind] -= not stays
        self._bytes = rest + claim.size if stays else rest
        return stays

    def admit(self, claim: Claim) -> bool:
        fits = self._counts[claim.kind] < self._limits.of(claim.kind) and self._bytes + claim.size <= self._limits.bytes
        if fits:
            self.take(claim.kind, claim.size)
        return fits
