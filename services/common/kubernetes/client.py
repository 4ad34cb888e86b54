"""An asynchronous Kubernetes client: few calls, JSON in, JSON out, errors by type."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

import aiohttp
import orjson
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException
from yaml import YAMLError

from services.common.errors import InvalidConfiguration, Permanent, Retry
from services.common.json_values import text_at
from services.common.kubernetes.answers import (
    NETWORK_ERRORS,
    WatchEvent,
    describe_error,
    keep_alive,
    parse_json,
    raise_for_status,
    split_lines,
    watch_event,
)
from services.common.kubernetes.api_errors import Rejected, Unauthenticated
from services.common.kubernetes.builtin_kinds import ApiResource, Manifest

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 5.0
"""Timeout for a connection, from the pool or new."""
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=REQUEST_SECONDS, connect=CONNECT_SECONDS)
WATCH_SECONDS = 290  # below the API server's own five-minute minimum, so that watches end by agreement
PAGE = 100
"""Objects per page of a list. With 256 KiB of annotations each, which anybody may write, these are some 30 MB."""
UNLIMITED = 0
"""aiohttp's value for an unlimited number of connections."""

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

WHOLE = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Requests only the metadata of each object, enough to follow Secrets; whole objects if that is unsupported."""
METADATA_LIST = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")


def _shown() -> ssl.SSLContext:
    """A context that accepts any certificate. Nothing is sent over such a connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


SHOWN = _shown()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, with the resource version of the whole list."""

    items: list[Manifest] = field(repr=False)  # may be Secrets
    resource_version: str


async def connect(kubeconfig: Path | None, *, connections: int = 32) -> KubeClient:
    """Open a client for ``kubeconfig``, or for the pod's service account if that is None.

    ``connections`` is the greatest number of calls at a time, without watches. Raises InvalidConfiguration if the file
    is missing or unusable, or if we are not in a pod.
    """
    configuration = Configuration()
    with _usable(kubeconfig):
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            source = str(kubeconfig)
            await config.load_kube_config(source, client_configuration=configuration)  # type: ignore[no-untyped-call]
    configuration.connection_pool_maxsize = connections
    return client_of(configuration)


def current_namespace(kubeconfig: Path) -> str:
    """The namespace of the kubeconfig's current context, as ``kubectl`` takes it. Raises InvalidConfiguration."""
    with _usable(kubeconfig):
        _, current = config.list_kube_config_contexts(str(kubeconfig))  # type: ignore[no-untyped-call]
    return text_at(current, "context.namespace") or "default"


@contextmanager
def _usable(kubeconfig: Path | None) -> Iterator[None]:
    """Raises InvalidConfiguration in place of the library's errors."""
    try:
        yield
    except (ConfigException, OSError, ValueError, TypeError, YAMLError) as error:
        raise InvalidConfiguration(f"KUBECONFIG: cannot use {kubeconfig or 'the service account'}: {error}") from error


def client_of(configuration: Configuration) -> KubeClient:
    """A client with this configuration. Call it on the event loop that will use the client."""
    tls = RESTClientObject(configuration).ssl_context
    # The library's own session looks for proxies in the environment and in ~/.netrc at every request.

    def session(limit: int) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=limit, ssl=tls), proxy=configuration.proxy)

    return KubeClient(configuration, session(configuration.connection_pool_maxsize), session(UNLIMITED))


def _nobody_elses() -> float:
    """Changes may take any time: no other process makes them."""
    return CONNECT_SECONDS


@dataclass(slots=True)
class KubeClient:
    """Calls to one API server. Every method raises the types of :mod:`.api_errors` or Retry."""

    configuration: Configuration
    calls: aiohttp.ClientSession
    watches: aiohttp.ClientSession
    """Session of watches. Each holds a connection, and there may be hundreds, so calls use another session."""
    require_ownership: Callable[[], float] = _nobody_elses
    """Called right before a change. Returns within how many seconds to send it. Raises Retry if another process may own
    its subject by now."""

    def fenced(self, require_ownership: Callable[[], float]) -> KubeClient:
        """A client with the same connections, for changes that only the owner may make."""
        return replace(self, require_ownership=require_ownership)

    async def __aenter__(self) -> Self:
        """Opens nothing before the first call."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self.calls.close()
        await self.watches.close()

    async def get_object(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest:
        """Read one object. Raises NotFound."""
        return await self._call("GET", resource.path(namespace, name))

    async def require_answer(self) -> None:
        """Return when the API server answers anything. Raises Retry if it does not."""
        with suppress(Rejected, Unauthenticated):
            await self._call("GET", "/version")

    async def read_certificate(self) -> bytes:
        """The API server's certificate (DER), unverified. Raises Retry, Permanent."""
        url = urlsplit(self.configuration.host)
        if url.scheme != "https" or self.configuration.proxy:
            raise Permanent(f"{url.scheme}: the API server is not connected to by TLS, or not directly")
        name = self.configuration.tls_server_name or url.hostname
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(
                    url.hostname, url.port or 443, ssl=SHOWN, server_hostname=name
                )
        except (OSError, TimeoutError) as error:
            raise Retry(f"certificate of {url.netloc}: {describe_error(error)}") from error
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        if shown is None:
            raise Retry(f"certificate of {url.netloc}: it shows none")
        return shown

    async def read_schemas(self, group: str, version: str) -> Manifest:
        """The OpenAPI description of an API group, with the fields that the API server stores. Raises NotFound."""
        return await self._call("GET", f"/openapi/v3/apis/{group}/{version}")

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        selector: str = "",
        fields: str = "",
        limit: int = PAGE,
        metadata_only: bool = False,
    ) -> AsyncGenerator[Page]:
        """List a collection page by page, at one consistent moment. Raises Expired if that moment is lost.

        ``selector`` selects by labels, ``fields`` by fields.
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

    async def watch_objects(
        self,
        resource: ApiResource,
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
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=WATCH_SECONDS + 30)
        accept = METADATA if metadata_only else WHOLE
        try:
            path = resource.path(namespace)
            async with self._request(
                "GET", path, query, accept=accept, limits=limits, session=self.watches
            ) as response:
                await raise_for_status(response)
                keep_alive(response)
                async for line in split_lines(response):
                    yield watch_event(line)
        except NETWORK_ERRORS as error:
            raise Retry(f"watch of {resource.plural} broke: {describe_error(error)}") from error

    async def create_object(self, resource: ApiResource, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create an object in the namespace it names. Raises AlreadyExists."""
        path = resource.path(manifest["metadata"].get("namespace"))
        return await self._call("POST", path, {"fieldManager": field_manager}, manifest)

    async def apply_object(
        self,
        resource: ApiResource,
        manifest: Manifest,
        *,
        field_manager: str,
        subresource: str | None = None,
        force: bool = True,
    ) -> Manifest:
        """Server-side apply. Takes over fields of other managers only with ``force``.

        Raises Conflict if another manager has another value, or if the manifest names another uid or version.
        """
        meta = manifest["metadata"]
        path = resource.path(meta.get("namespace"), meta["name"], subresource)
        query = {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        return await self._call("PATCH", path, query, manifest, APPLY_PATCH)

    async def patch_object(
        self,
        resource: ApiResource,
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

    async def delete_object(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        uid: str | None = None,
        version: int | None = None,
    ) -> None:
        """Request the deletion; with ``uid`` only of that incarnation, with ``version`` only of that version.

        Raises NotFound, Conflict (another uid or version).
        """
        options: Manifest = {"propagationPolicy": propagation}
        preconditions = {"uid": uid, "resourceVersion": str(version) if version is not None else None}
        if given := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = given
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
        # Once a connection is to be had, the request is sent at once.
        limits = REQUEST_TIMEOUT if method == "GET" else _limits(self.require_ownership())
        try:
            async with self._request(method, path, query, body, content_type, accept, limits) as response:
                await raise_for_status(response)
                return parse_json(await response.read())
        except NETWORK_ERRORS as error:
            raise Retry(f"{method} {path}: {describe_error(error)}") from error

    @asynccontextmanager
    async def _request(  # noqa: PLR0917 - what HTTP has
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        accept: str = WHOLE,
        limits: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
        session: aiohttp.ClientSession | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """A request with our credentials, which are read each time because tokens are renewed."""
        headers = {"Accept": accept}
        if credentials := (await self.configuration.auth_settings()).get("BearerToken"):
            headers["Authorization"] = credentials["value"] or ""
        if body is not None:
            headers["Content-Type"] = content_type
        response = await (session or self.calls).request(
            method,
            f"{self.configuration.host}{path}",
            params=dict(query or {}),
            headers=headers,
            data=None if body is None else orjson.dumps(body),
            timeout=limits,
            server_hostname=self.configuration.tls_server_name,
        )
        try:
            yield response
        except BaseException:
            response.close()
            raise
        response.release()


def _limits(seconds: float) -> aiohttp.ClientTimeout:
    """The limits of a request that has to be sent within ``seconds``."""
    return aiohttp.ClientTimeout(total=REQUEST_SECONDS, connect=min(CONNECT_SECONDS, seconds))


def _selection(labels: str, fields: str) -> dict[str, str]:
    return ({"labelSelector": labels} if labels else {}) | ({"fieldSelector": fields} if fields else {})
