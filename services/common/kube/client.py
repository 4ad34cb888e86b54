"""An asynchronous Kubernetes client: eight calls, JSON in, JSON out, errors by type."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import aiohttp
import orjson
from kubernetes_asyncio import client, config
from kubernetes_asyncio.config import ConfigException
from yaml import YAMLError

from services.common.errors import InvalidConfiguration, Retry
from services.common.kube.errors import from_status
from services.common.kube.resources import Manifest, Resource

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)
WATCH_SECONDS = 290  # below the API server's own five-minute minimum, so that watches end by agreement
PAGE = 100
"""Objects of a list at a time: with 256 KiB of annotations each, as anyone may write, they are some 30 MB."""
MESSAGE_LIMIT = 1024  # an admission message can hold a user's whole object; a log line must not

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

WHOLE = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Of each object only its metadata, all that a follower of Secrets needs to hold; whole objects if that is unknown."""
METADATA_LIST = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")

_NETWORK_ERRORS = (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError, ssl.SSLError)

# A watch may be silent for a minute, so only the kernel can tell a quiet API server from one whose host is gone.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ``type`` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Manifest = field(repr=False)  # may be a Secret


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, with the resource version of the whole list."""

    items: list[Manifest] = field(repr=False)  # may be Secrets
    resource_version: str


async def connect(kubeconfig: Path | None, *, connections: int = 32) -> KubeClient:
    """Open a client for ``kubeconfig``, or for the pod's own service account if that is None.

    Raises:
        InvalidConfiguration: the file is missing or unusable, or we are not in a pod.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    except (ConfigException, OSError, ValueError, TypeError, YAMLError) as error:
        raise InvalidConfiguration(f"KUBECONFIG: cannot use {kubeconfig or 'the service account'}: {error}") from error
    configuration.connection_pool_maxsize = connections
    return client_of(configuration)


def client_of(configuration: client.Configuration) -> KubeClient:
    """A client with these settings. To be called on the event loop that will use it."""
    api = client.ApiClient(configuration)
    # The library's own session looks for proxies in the environment and in ~/.netrc at every request.
    session = aiohttp.ClientSession(
        connector=api.rest_client.pool_manager.connector, connector_owner=False, proxy=configuration.proxy
    )
    return KubeClient(api, session)


@dataclass(slots=True)
class KubeClient:
    """Calls to one API server. Every method raises the types of :mod:`services.common.kube.errors` or Retry."""

    api: client.ApiClient
    session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        """Nothing is opened before the first call."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self.session.close()
        await self.api.close()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Manifest:
        """Read one object. Raises NotFound."""
        return await self._call("GET", resource.path(namespace, name))

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        selector: str = "",
        fields: str = "",
        limit: int = PAGE,
        metadata_only: bool = False,
    ) -> AsyncGenerator[Page]:
        """List a collection page by page, all pages of one consistent moment. Raises Expired if that moment is lost.

        ``selector`` chooses by labels, ``fields`` by fields.
        """
        accept = METADATA_LIST if metadata_only else WHOLE
        query = {"limit": str(limit)} | _selection(selector, fields)
        while True:
            body = await self._call("GET", resource.path(namespace), query, accept=accept)
            meta = body["metadata"]
            yield Page(body["items"] or [], meta["resourceVersion"])  # an empty list of metadata is null
            if not meta.get("continue"):
                return
            query["continue"] = meta["continue"]

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        namespace: str | None = None,
        *,
        selector: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent]:
        """Stream changes after ``resource_version`` until the server ends the watch. Raises Expired, Retry."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        } | _selection(selector, fields)
        timeout = aiohttp.ClientTimeout(total=None, connect=5, sock_read=WATCH_SECONDS + 30)
        accept = METADATA if metadata_only else WHOLE
        try:
            path = resource.path(namespace)
            async with self._request("GET", path, query, timeout=timeout, accept=accept) as response:
                await _raise_for_status(response)
                _keep_alive(response)
                async for line in _lines(response):
                    yield _watch_event(line)
        except _NETWORK_ERRORS as error:
            raise Retry(f"watch of {resource.plural} broke: {_describe(error)}") from error

    async def create(self, resource: Resource, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create an object in the namespace it names. Raises AlreadyExists."""
        path = resource.path(manifest["metadata"].get("namespace"))
        return await self._call("POST", path, {"fieldManager": field_manager}, manifest)

    async def apply(
        self, resource: Resource, manifest: Manifest, *, field_manager: str, subresource: str | None = None
    ) -> Manifest:
        """Server-side apply, taking over fields that another manager owns."""
        meta = manifest["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        query = {"fieldManager": field_manager, "force": "true"}
        return await self._call("PATCH", path, query, manifest, APPLY_PATCH)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Manifest | list[Manifest],
        *,
        field_manager: str,
        subresource: str | None = None,
    ) -> Manifest:
        """Change parts of an object: a list is a JSON patch (RFC 6902), a mapping a merge patch (RFC 7386)."""
        content_type = JSON_PATCH if isinstance(patch, list) else MERGE_PATCH
        path = resource.path(namespace, name, subresource)
        return await self._call("PATCH", path, {"fieldManager": field_manager}, patch, content_type)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str | None = None,
    ) -> None:
        """Ask for deletion; with ``uid`` only of that incarnation. Raises NotFound, Conflict (another uid)."""
        options: Manifest = {"propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._call("DELETE", resource.path(namespace, name), body=options)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        accept: str = WHOLE,
    ) -> Manifest:
        try:
            async with self._request(method, path, query, body, content_type, accept=accept) as response:
                await _raise_for_status(response)
                return _json(await response.read())
        except _NETWORK_ERRORS as error:
            raise Retry(f"{method} {path}: {_describe(error)}") from error

    def _request(  # noqa: PLR0917 - what HTTP has
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
        accept: str = WHOLE,
    ) -> _AuthorizedRequest:
        return _AuthorizedRequest(
            self.api, self.session, method, path, dict(query or {}), body, content_type, timeout, accept
        )


@dataclass(slots=True)
class _AuthorizedRequest:
    """An aiohttp request whose credentials are asked for when it is entered: tokens are renewed under us."""

    api: client.ApiClient
    session: aiohttp.ClientSession
    method: str
    path: str
    query: dict[str, str]
    body: object
    content_type: str
    timeout: aiohttp.ClientTimeout
    accept: str
    _response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> aiohttp.ClientResponse:
        headers = {"Accept": self.accept}
        await self.api.update_params_for_auth(headers, [], ["BearerToken"])
        extra: dict[str, Any] = {}
        if self.body is not None:
            headers["Content-Type"] = self.content_type
            extra["data"] = orjson.dumps(self.body)
        url = f"{self.api.configuration.host}{self.path}"
        self._response = await self.session.request(
            self.method, url, params=self.query, headers=headers, timeout=self.timeout, **extra
        )
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            self._response.release() if kind is None else self._response.close()


def _selection(labels: str, fields: str) -> dict[str, str]:
    return ({"labelSelector": labels} if labels else {}) | ({"fieldSelector": fields} if fields else {})


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:  # noqa: PLR2004 - HTTP's own boundary
        return
    body = await response.read()
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):  # a proxy answered in the API server's place
        status = {"message": body.decode(errors="replace")}
    reason = status.get("reason", response.reason or "")
    raise from_status(response.status, reason, str(status.get("message", ""))[:MESSAGE_LIMIT])


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel probe an idle connection, so that a dead peer ends the read within half a minute."""
    transport = response.connection.transport if response.connection else None
    connection = transport.get_extra_info("socket") if transport else None
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _KEEP_ALIVE.items():
        if hasattr(socket, option):  # not every platform has all three
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)


async def _lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Split a chunked body at newlines; a line may be longer than any read buffer."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _watch_event(line: bytes) -> WatchEvent:
    event = _json(line)
    try:
        type_, content = event["type"], event["object"]
        if type_ == "ERROR":
            message = str(content.get("message", ""))[:MESSAGE_LIMIT]
            raise from_status(content.get("code", 500), content.get("reason", ""), message)
        return WatchEvent(type_, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise Retry(f"API server sent a watch event without {error}") from error


def _json(text: bytes) -> Manifest:
    """Parse an answer. A proxy on the way may cut it short, or answer in the API server's place."""
    try:
        answer: Manifest = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Retry(f"API server sent what is not JSON ({len(text)} bytes): {error}") from error
    return answer


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
