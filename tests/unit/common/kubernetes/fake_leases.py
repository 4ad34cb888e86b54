"""One Lease as the API server keeps it: with optimistic locking, and faults on demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from services.common.errors import Retry
from services.common.kubernetes import AlreadyExists, Conflict, Manifest, NotFound


@dataclass
class FakeLeases:
    """In the place of a KubeClient, as far as an election needs one."""

    lease: Manifest | None = None
    version: int = 0
    failing: int = 0
    """Be away this many times."""
    writes: list[str] = field(default_factory=list)
    """Holders as written."""
    refusal: Exception | None = None
    """Raised by whatever would write."""

    async def get_object(self, *_: Any) -> Manifest:
        self._answer()
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    async def create_object(self, _: Any, manifest: Manifest, **__: Any) -> Manifest:
        self._answer()
        if self.lease is not None:
            raise AlreadyExists("there is one")
        return self.write(manifest["spec"])

    async def patch_object(self, _: Any, __: str, ___: str, patch: Manifest, **____: Any) -> Manifest:
        self._answer()
        assert self.lease is not None
        if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("changed")
        return self.write(patch["spec"])

    def write(self, spec: Manifest) -> Manifest:
        if self.refusal is not None:
            raise self.refusal
        self.version += 1
        self.lease = {"metadata": {"resourceVersion": str(self.version)}, "spec": spec}
        self.writes.append(spec["holderIdentity"])
        return self.lease

    def _answer(self) -> None:
        if self.failing:
            self.failing -= 1
            raise Retry("away")

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""
