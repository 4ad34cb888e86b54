"""Client of a tenant's API server, with one token or certificate. Its answers are untrusted."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from services.agent.credentials.check_result import failed
from services.agent.credentials.clusters.client_certificate import ClientCertificate
from services.agent.credentials.network.endpoint import parse_https
from services.agent.credentials.network.https import MAX_ANSWER_BYTES, Connection, HttpsConnector, tls_context, trust
from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable
from services.common.kubernetes import ApiResource, Manifest
from services.common.ownership import AGENT_FIELD_MANAGER
from services.kinds.managed_environment import catalogue as environment

APPLY_PATCH = "application/apply-patch+yaml"
JSON = "application/json"


CLUSTER_WIDE = ""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A request, as the right that it needs: verb, resource, namespace."""

    verb: str
    resource: ApiResource
    namespace: str = CLUSTER_WIDE
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        plural = f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural
        group = f".{self.resource.group}" if self.resource.group else ""
        verb = "create and patch" if self.verb == "patch" else self.verb  # applying what is not there creates it
        return f"{verb} {plural}{group}" + (f" in namespace {self.namespace}" if self.namespace else "")


class ClusterRefused(Exception):
    """The API server answered with an error. Only the status of the answer is known here."""

    def __init__(self, asked: AccessRequest, status: int) -> None:
        super().__init__(f"{asked}: HTTP status {status}")
        self.asked, self.status = asked, status

    @property
    def may_pass(self) -> bool:
        """Whether a later attempt may succeed."""
        return self.status >= HTTPStatus.INTERNAL_SERVER_ERROR or self.status == HTTPStatus.TOO_MANY_REQUESTS


@dataclass(frozen=True, slots=True)
class ClusterClient:
    """Calls to one API server. Every method raises ClusterRefused and Unreachable."""

    connection: Connection = field(repr=False)
    token: str = field(repr=False)
    """The bearer token; empty if the connection has a certificate."""

    async def get_object(self, resource: ApiResource, namespace: str, name: str) -> Manifest:
        """Read one object."""
        return await self._call("GET", AccessRequest("get", resource, namespace, name))

    async def find_object(self, resource: ApiResource, namespace: str, name: str) -> Manifest | None:
        """Read one object, None if there is none."""
        try:
            return await self.get_object(resource, namespace, name)
        except ClusterRefused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def list_objects(self, resource: ApiResource, query: str) -> list[Manifest]:
        """Objects of all namespaces. ``query`` is already encoded."""
        answer = await self._call("GET", AccessRequest("list", resource), query=query)
        items = answer.get("items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise Unreachable(ConnectionProblem.ANSWER)
        return items

    async def apply_object(self, resource: ApiResource, manifest: Manifest) -> None:
        """Server-side apply: create the object, or change it."""
        meta = manifest["metadata"]
        asked = AccessRequest("patch", resource, meta.get("namespace", CLUSTER_WIDE), meta["name"])
        await self._call("PATCH", asked, f"fieldManager={AGENT_FIELD_MANAGER}&force=true", manifest, APPLY_PATCH)

    async def create_object(self, asked: AccessRequest, body: Manifest) -> Manifest:
        """Create the object that ``asked`` describes."""
        return await self._call("POST", asked, "", body)

    async def remove_object(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Delete the object, if it exists."""
        try:
            await self._call("DELETE", AccessRequest("delete", resource, namespace, name))
        except ClusterRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def read_path(self, path: str, asked: AccessRequest, accept: str, limit: int) -> Manifest:
        """Read a path that is not an object."""
        answer = await self.connection.request("GET", path, self._headers() | {"Accept": accept}, limit=limit)
        return _content(asked, answer.status, answer.body)

    async def _call(
        self, method: str, asked: AccessRequest, query: str = "", body: Manifest | None = None, content_type: str = JSON
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
        return ({"Authorization": f"Bearer {self.token}"} if self.token else {}) | {"Accept": JSON}


def _content(asked: AccessRequest, status: int, body: bytes) -> Manifest:
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise ClusterRefused(asked, status)
    content: Any = None
    with contextlib.suppress(orjson.JSONDecodeError):
        content = orjson.loads(body)
    if not isinstance(content, dict):
        raise Unreachable(ConnectionProblem.ANSWER)
    return content


@dataclass(frozen=True, slots=True)
class ApiServer:
    """URL of an API server, and how its certificate is verified."""

    url: str
    authority: str | None
    """PEM of the certificate authorities to trust instead of the system's."""
    insecure: bool
    certificate: ClientCertificate | None = None
    """The client's certificate; None: the client has a token."""


def _tls(server: ApiServer) -> ssl.SSLContext:
    """A TLS context. Runs in a thread. Raises ValueError.

    A context with a certificate is used for one connection only.
    """
    if server.certificate is None:
        return trust(server.authority, insecure=server.insecure)
    context = tls_context(server.authority, insecure=server.insecure)
    server.certificate.load_into(context)
    return context


@asynccontextmanager
async def connect_to_api_server(https: HttpsConnector, server: ApiServer) -> AsyncGenerator[Connection]:
    """Connections to ``server``, until the block ends. Raises CheckFailed, Unreachable."""
    try:
        endpoint, why = parse_https(server.url), ""
        tls = await asyncio.to_thread(_tls, server)
    except ValueError as error:
        why = str(error)
    if why:
        raise failed(environment.NO_REST_CONFIG, why)
    async with https.open_connection(endpoint, tls) as connection:
        yield connection
