"""Quotas: how much a tenant may have, and which of its resources are within that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from services.kinds.shared.catalogue import QUOTA_EXCEEDED

MEBIBYTE = 1024 * 1024
DEFAULT_BYTES = 16 * MEBIBYTE
DEFAULT_DESTINATIONS = 2000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one tenant."""

    counts: Mapping[str, int]
    """Number of resources of each kind; see ``Registry.limits``."""
    destinations: int = DEFAULT_DESTINATIONS
    """Namespaces that all environments list together, in one object. A whole cluster counts as one."""
    bytes: int = DEFAULT_BYTES
    """Bytes of all specs and sealed Secrets together."""
    listing: frozenset[str] = frozenset()
    """Kinds whose resources list destinations."""
    counted: Mapping[str, str] = field(default_factory=dict)
    """Which resources count, for kinds of which not all do; see ``Kind.counted``."""

    def of(self, kind: str) -> int:
        """The limit of resources of ``kind``."""
        return self.counts[kind]

    def message(self, kind: str) -> str:
        """The message for a resource that exceeds its quota."""
        listed = f", {self.destinations} namespaces listed in them" if kind in self.listing else ""
        counted = f" {self.counted[kind]}" if kind in self.counted else ""
        most = f"this namespace may have {self.of(kind)} {kind}s{counted}{listed}"
        size = f"{self.bytes // MEBIBYTE} MiB of specs and Secrets in all"
        return QUOTA_EXCEEDED.text(detail=f"{most}, and {size}; delete some, or ask the operator for more")


@dataclass(frozen=True, slots=True)
class Share:
    """What a resource uses of a tenant's quotas, besides counting as one of its kind."""

    bytes: int = 0
    """Bytes of its spec."""
    destinations: int = 0
    """Namespaces that deployments may use because of it."""

    def __add__(self, other: Share) -> Share:
        return Share(self.bytes + other.bytes, self.destinations + other.destinations)

    def __sub__(self, other: Share) -> Share:
        return Share(self.bytes - other.bytes, self.destinations - other.destinations)


@dataclass(frozen=True, slots=True)
class Claim:
    """A resource to admit."""

    id: UUID
    kind: str
    created_at: int
    """Milliseconds since 1970."""
    name: str
    size: Share
    """Its current size."""
    admitted: Share | None = None
    """Its size when it was admitted; None if it was not, or is new."""
    held: Share | None = None
    """What stays in force of it even if it is refused; None: nothing."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What is used by others than the claims."""

    counts: Mapping[str, int] = field(default_factory=dict)
    share: Share = field(default_factory=Share)


def over_quota(claims: Iterable[Claim], limits: Limits, taken: Taken | None = None) -> frozenset[UUID]:
    """Ids of the ``claims``, all of one tenant, that exceed its limits.

    Admitted resources stay admitted when a limit is lowered, but not when they grow beyond one. Refused resources count
    with what is still in force of them. The oldest are admitted first; a resource that is too large does not keep
    smaller ones out.
    """
    room = _Room(limits, taken or Taken())
    oldest_first = sorted(claims, key=lambda claim: (claim.created_at, claim.name, claim.id))
    admitted = [claim for claim in oldest_first if claim.admitted is not None]
    waiting = [claim for claim in oldest_first if claim.admitted is None]
    for claim in oldest_first:
        room.charge(claim.kind, claim.admitted or claim.held)
    outgrown = frozenset(claim.id for claim in admitted if not room.resize(claim))
    return outgrown | frozenset(claim.id for claim in waiting if not room.admit(claim))


class _Room:
    """What is used and what is left, claim by claim."""

    def __init__(self, limits: Limits, taken: Taken) -> None:
        self._limits = limits
        self._counts = Counter(taken.counts)
        self._taken = taken.share

    def charge(self, kind: str, share: Share | None) -> None:
        """Count a resource's share; None: nothing."""
        if share is not None:
            self._counts[kind] += 1
            self._taken += share

    def release(self, kind: str, share: Share | None) -> None:
        """Stop counting a share."""
        if share is not None:
            self._counts[kind] -= 1
            self._taken -= share

    def resize(self, claim: Claim) -> bool:
        """Whether an admitted resource stays admitted with its new size."""
        if claim.size == claim.admitted:
            return True
        self.release(claim.kind, claim.admitted)
        stays = self._fits(claim.size, claim.admitted or Share())
        self.charge(claim.kind, claim.size if stays else claim.held)
        return stays

    def admit(self, claim: Claim) -> bool:
        """Whether a resource that was not admitted before is admitted now."""
        self.release(claim.kind, claim.held)
        counts = claim.held is not None or self._counts[claim.kind] < self._limits.of(claim.kind)
        fits = counts and self._fits(claim.size, claim.held or Share())
        self.charge(claim.kind, claim.size if fits else claim.held)
        return fits

    def _fits(self, share: Share, before: Share) -> bool:
        """Whether ``share`` is within the limits, or not greater than ``before``."""
        now = self._taken + share
        few = share.destinations <= before.destinations or now.destinations <= self._limits.destinations
        return few and (share.bytes <= before.bytes or now.bytes <= self._limits.bytes)
