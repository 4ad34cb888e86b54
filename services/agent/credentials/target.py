"""The API server of a tenant's cluster, spoken to with one token. What it answers is data of unknown origin."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.agent.credentials.names import Trouble, Unreached
from services.agent.credentials.outbound import MAX_ANSWER_BYTES, Connection
from services.common.kube import Manifest, Resource
from services.common.ownership import AGENT_FIELD_MANAGER

APPLY_PATCH = "application/apply-patch+yaml"
JSON = "application/json"

OK, MULTIPLE_CHOICES = 200, 300
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, TOO_MANY = 401, 403, 404, 429
SERVER_ERRORS = 500

CLUSTER_WIDE = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in the words of a right: what a missing right is called by."""

    verb: str
    resource: Resource
    namespace: str = CLUSTER_WIDE
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        plural = f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural
        group = f".{self.resource.group}" if self.resource.group else ""
        verb = "create and patch" if self.verb == "patch" else self.verb  # applying what is not there creates it
        return f"{verb} {plural}{group}" + (f" in namespace {self.namespace}" if self.namespace else "")


class TargetRefused(Exception):
    """The API server answered with an error. Only its status is known here."""

    def __init__(self, asked: Asked, status: int) -> None:
        super().__init__(f"{asked}: HTTP status {status}")
        self.asked, self.status = asked, status

    @property
    def may_pass(self) -> bool:
        """It can be another answer in a moment."""
        return self.status >= SERVER_ERRORS or self.status == TOO_MANY


@dataclass(frozen=True, slots=True)
class Target:
    """Calls to one API server. Every method raises TargetRefused or Unreached."""

    connection: Connection = field(repr=False)
    token: str = field(repr=False)

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest:
        """Read one object."""
        return await self._call("GET", Asked("get", resource, namespace, name))

    async def find(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """Read one object, None if there is none."""
        try:
            return await self.get(resource, namespace, name)
        except TargetRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def list(self, resource: Resource, query: str) -> list[Manifest]:
        """Objects of all namespaces; ``query`` is encoded already."""
        answer = await self._call("GET", Asked("list", resource), query=query)
        items = answer.get("items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise Unreached(Trouble.ANSWER)
        return items

    async def apply(self, resource: Resource, manifest: Manifest) -> None:
        """Server-side apply: create, or make as it shall be."""
        meta = manifest["metadata"]
        asked = Asked("patch", resource, meta.get("namespace", CLUSTER_WIDE), meta["name"])
        await self._call("PATCH", asked, f"fieldManager={AGENT_FIELD_MANAGER}&force=true", manifest, APPLY_PATCH)

    async def create(self, asked: Asked, body: Manifest) -> Manifest:
        """Create what ``asked`` says."""
        return await self._call("POST", asked, "", body)

    async def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """Delete, if it is there."""
        try:
            await self._call("DELETE", Asked("delete", resource, namespace, name))
        except TargetRefused as error:
            if error.status != NOT_FOUND:
                raise

    async def read(self, path: str, asked: Asked, accept: str, limit: int) -> Manifest:
        """Read a path that is no object's."""
        answer = await self.connection.request("GET", path, self._headers() | {"Accept": accept}, limit=limit)
        return _content(asked, answer.status, answer.body)

    async def _call(
        self, method: str, asked: Asked, query: str = "", body: Manifest | None = None, content_type: str = JSON
    ) -> Manifest:
        path = asked.resource.path(asked.namespace or None, asked.name or None, asked.subresource or None)
        headers = self._headers() | ({"Content-Type": content_type} if body is not None else {})
        answer = await self.connection.request(
            method,
            f"{path}?{query}" if query else path,
            headers,
            orjson.dumps(body) if body is not None else None,
            MAX_ANSWER_BYTES,
        )
        return _content(asked, answer.status, answer.body)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Accept": JSON}


def _content(asked: Asked, status: int, body: bytes) -> Manifest:
    if not OK <= status < MULTIPLE_CHOICES:
        raise TargetRefused(asked, status)
    content: Any = None
    with contextlib.suppress(orjson.JSONDecodeError):
        content = orjson.loads(body)
    if not isinstance(content, dict):
        raise Unreached(Trouble.ANSWER)
    return content
