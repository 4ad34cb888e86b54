"""One Lease as an API server keeps it: with optimistic locking, and faults on demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from services.common.kube import Manifest
from tests.unit.common.kube.fake_api_server import status


@dataclass
class FakeLeases:
    lease: Manifest | None = None
    version: int = 0
    failing: int = 0
    """Answer 503 this many times."""
    writes: list[str] = field(default_factory=list)
    """Holders as written."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.failing:
            self.failing -= 1
            return status(503, "ServiceUnavailable")
        if request.method == "POST":
            return status(409, "AlreadyExists") if self.lease else self._write(await request.json())
        if self.lease is None:
            return status(404, "NotFound")
        if request.method == "GET":
            return web.json_response(self.lease)
        body: Any = await request.json()
        is_current = body["metadata"]["resourceVersion"] == self.lease["metadata"]["resourceVersion"]
        return self._write(body) if is_current else status(409, "Conflict")

    def _write(self, body: Manifest) -> web.Response:
        self.version += 1
        self.lease = {"metadata": {"resourceVersion": str(self.version)}, "spec": body["spec"]}
        self.writes.append(body["spec"]["holderIdentity"])
        return web.json_response(self.lease)

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""

    async def close(self) -> None:
        """Nothing is held open."""
