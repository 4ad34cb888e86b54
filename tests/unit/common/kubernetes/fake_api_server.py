"""An API server that keeps a collection and its history truly, and misbehaves on request.

Lists are of one moment, across pages; watches replay history after a version, then follow. A fault takes the place of
one answer: what it leaves unsaid stays in the history, so a client that follows the rules can still learn it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from kubernetes.aio.client import Configuration

from services.common.kubernetes import KubeClient, Manifest
from services.common.kubernetes.client import client_of

Stream = web.StreamResponse
Fault = Callable[["FakeApiServer", web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Entry:
    """One change of the collection."""

    version: int
    type: str
    object: Manifest

    @property
    def line(self) -> bytes:
        return event_line(self.type, self.object)


@dataclass
class FakeApiServer:
    objects: dict[str, Manifest] = field(default_factory=dict)
    history: list[Entry] = field(default_factory=list)
    version: int = 100
    oldest: int = 100
    """Watches from before this version are told 410."""
    list_faults: deque[Fault] = field(default_factory=deque)
    watch_faults: deque[Fault] = field(default_factory=deque)
    watched_from: list[int] = field(default_factory=list)
    lists: list[dict[str, str]] = field(default_factory=list)
    collection: str = ""
    """Path of what was last listed or watched: of the objects kept here."""
    others: dict[str, Manifest] = field(default_factory=dict)
    """Objects of other collections, by path."""
    namespaces: dict[str, Manifest | None] = field(default_factory=dict)
    """Metadata of those that are not as usual; None if there is none."""
    namespace_gets: list[str] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    get_faults: deque[Fault] = field(default_factory=deque)
    get_seconds: float = 0
    getting: int = 0
    most_getting: int = 0
    """Reads of single objects under way, and the most there ever were."""
    partial: list[bool] = field(default_factory=list)
    """For each list and watch, whether only metadata was asked for."""
    _moments: dict[str, list[Manifest]] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _closing: bool = False

    async def put(self, name: str, **content: Any) -> None:
        type_ = "MODIFIED" if name in self.objects else "ADDED"
        await self._record(type_, {"metadata": {"name": name, "uid": f"uid-{name}"}} | content)

    async def delete(self, name: str) -> None:
        await self._record("DELETED", self.objects[name])

    def forget_history(self) -> None:
        """As etcd does when it compacts."""
        self.oldest = self.version

    async def _record(self, type_: str, manifest: Manifest) -> None:
        self.version += 1
        meta = manifest["metadata"] | {"resourceVersion": str(self.version)}
        manifest = manifest | {"metadata": meta}
        if type_ == "DELETED":
            del self.objects[meta["name"]]
        else:
            self.objects[meta["name"]] = manifest
        self.history.append(Entry(self.version, type_, manifest))
        async with self._changed:
            self._changed.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/api/v1/namespaces/") and request.path.count("/") == 4:
            return self.serve_namespace(request.path.rpartition("/")[2])
        if "/namespaces/" in request.path:
            return await self.serve_get(request)
        watching = "watch" in request.query
        self.collection = request.path
        self.partial.append(is_partial(request))
        if watching:
            self.watched_from.append(int(request.query["resourceVersion"]))
        else:
            self.lists.append(dict(request.query))
        faults = self.watch_faults if watching else self.list_faults
        if faults:
            return await faults.popleft()(self, request)
        return await (self.serve_watch(request) if watching else self.serve_list(request))

    async def serve_list(self, request: web.Request) -> web.StreamResponse:
        limit = int(request.query.get("limit", "0"))
        token = request.query.get("continue", "")
        version, start = token.split(":") if token else (str(self.version), "0")
        chosen = [item for item in self.objects.values() if is_chosen(request, item)]
        items = self._moments.setdefault(version + request.query.get("fieldSelector", ""), chosen)
        end = int(start) + limit if limit else len(items)
        shown: list[Manifest] | None = [as_asked(request, item) for item in items[int(start) : end]]
        if not shown and is_partial(request):
            shown = None  # as the real one does
        more = f"{version}:{end}" if end < len(items) else ""
        return web.json_response({"metadata": {"resourceVersion": version, "continue": more}, "items": shown})

    async def serve_get(self, request: web.Request) -> web.StreamResponse:
        self.gets.append(request.path)
        self.getting += 1
        self.most_getting = max(self.most_getting, self.getting)
        try:
            await asyncio.sleep(self.get_seconds)
        finally:
            self.getting -= 1
        if self.get_faults:
            return await self.get_faults.popleft()(self, request)
        *_, namespace, plural, name = request.path.split("/")
        found = self.others.get(request.path)
        if found is None and self.collection.endswith(f"/{plural}"):
            mine = self.objects.get(name)
            found = mine if mine and mine["metadata"].get("namespace", namespace) == namespace else None
        return web.json_response(found) if found else not_found(plural, name)

    def serve_namespace(self, name: str) -> web.Response:
        """Every namespace is there, for ever, unless a test says otherwise."""
        self.namespace_gets.append(name)
        meta = self.namespaces.get(name, {"uid": f"uid-of-{name}", "creationTimestamp": "1970-01-01T00:00:00Z"})
        return web.json_response({"metadata": {"name": name} | meta}) if meta else not_found("namespaces", name)

    async def serve_watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return status(410, "Expired")
        response = await self.open(request)
        while not self._closing:
            for entry in self.after(since):
                if is_chosen(request, entry.object):
                    await response.write(event_line(entry.type, as_asked(request, entry.object)))
                since = entry.version
            async with self._changed:
                await self._changed.wait_for(lambda: self._closing or self.version > since)  # noqa: B023 - awaited here
        return response

    def after(self, version: int) -> list[Entry]:
        return [entry for entry in self.history if entry.version > version]

    @staticmethod
    async def open(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        return response

    async def close(self) -> None:
        self._closing = True
        async with self._changed:
            self._changed.notify_all()


def is_chosen(request: web.Request, manifest: Manifest) -> bool:
    """By the field selectors that are played here: ``type=…``, and ``type!=…`` of several."""
    terms = filter(None, request.query.get("fieldSelector", "").split(","))
    return all(_satisfies(manifest, *term.partition("=")) for term in terms)


def _satisfies(manifest: Manifest, field_: str, _: str, value: str) -> bool:
    found = manifest.get(field_.removesuffix("!"))
    return (found != value) if field_.endswith("!") else (found == value)


def event_line(type_: str, manifest: Manifest) -> bytes:
    return orjson.dumps({"type": type_, "object": manifest}) + b"\n"


def is_partial(request: web.Request) -> bool:
    return "as=PartialObjectMetadata" in request.headers["Accept"]


def as_asked(request: web.Request, manifest: Manifest) -> Manifest:
    """The whole, or its metadata."""
    return {"metadata": manifest["metadata"]} if is_partial(request) else manifest


def status(code: int, reason: str = "", message: str = "as told") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


def not_found(plural: str, name: str) -> web.Response:
    """There is no such object."""
    details = {"name": name, "kind": plural}
    content = {"code": 404, "reason": "NotFound", "message": f'{plural} "{name}" not found', "details": details}
    return web.json_response({"kind": "Status"} | content, status=404)


def misses(plural: str, name: str) -> Fault:
    """Say that there is no such object."""

    async def fault(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        return not_found(plural, name)

    return fault


def answers(code: int, reason: str = "", message: str = "as told") -> Fault:
    """Answer with a Status instead of a stream."""

    async def fault(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        return status(code, reason, message)

    return fault


def says(body: bytes, code: int = 200) -> Fault:
    """Answer with these bytes: what a proxy may do."""

    async def fault(_: FakeApiServer, __: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=code, content_type="text/html")

    return fault


def page(gate: asyncio.Event | None = None) -> Fault:
    """A page of a list, once ``gate`` is open."""

    async def fault(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        if gate is not None:
            await gate.wait()
        return await server.serve_list(request)

    return fault


def expires_between_pages() -> Fault:
    """A list whose first page is fine, and whose moment is forgotten before the second."""

    async def fault(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        server.list_faults.append(answers(410, "Expired"))
        return await server.serve_list(request)

    return fault


def streams(*, events: int, then: bytes = b"", abort: bool = False, chunk: int = 0) -> Fault:
    """Send the next ``events`` events, waiting for each, then the bytes ``then``; end in order, or ``abort``.

    ``chunk`` cuts what is sent into pieces of that many bytes.
    """

    async def fault(server: FakeApiServer, request: web.Request) -> web.StreamResponse:
        response = await server.open(request)
        since = int(request.query["resourceVersion"])
        async with server._changed:
            await server._changed.wait_for(lambda: server._closing or len(server.after(since)) >= events)
        body = b"".join(entry.line for entry in server.after(since)[:events]) + then
        for start in range(0, len(body), chunk or len(body) or 1):
            await response.write(body[start : start + (chunk or len(body))])
            if chunk:
                await asyncio.sleep(0)
        if abort:
            assert request.transport is not None
            request.transport.close()
        return response

    return fault


def error_event(code: int, reason: str) -> bytes:
    return orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason}}) + b"\n"


def bookmark(version: int) -> bytes:
    return orjson.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}) + b"\n"


@asynccontextmanager
async def serving(server: FakeApiServer) -> AsyncIterator[KubeClient]:
    """Serve on a free port; yields a client of it."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    host, port = runner.addresses[0][:2]
    configuration.host = f"http://{host}:{port}"
    try:
        async with client_of(configuration) as kube:
            yield kube
    finally:
        await server.close()
        await runner.cleanup()
