"""Stands in front of the API server and lets a share of the calls fail, in each way in which they do.

One in five of those that fail is carried out, and only its answer is lost: who made it cannot know.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

import aiohttp
from aiohttp import web
from yarl import URL

HOST = "127.0.0.1"
REFUSALS = {500: "InternalError", 503: "ServiceUnavailable", 429: "TooManyRequests"}
OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "content-encoding", "connection", "date"})
"""Of one hop."""


class FailingApiServer:
    """A reverse proxy with the API server's own certificate."""

    def __init__(self, server: str, certificate: Path, key: Path, share: float, seed: int) -> None:
        self._server, self._share = server, share
        self._random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self.failed = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """For as long as the block runs; yields the port."""
        connector = aiohttp.TCPConnector(limit=0, ssl=False)  # this machine's own, by loopback
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            runner = web.ServerRunner(
                web.Server(partial(self._answer, session), handler_cancellation=True), shutdown_timeout=1
            )
            await runner.setup()
            site = web.TCPSite(runner, HOST, 0, ssl_context=self._tls)
            await site.start()
            try:
                yield runner.addresses[0][1]
            finally:
                await runner.cleanup()

    async def _answer(self, session: aiohttp.ClientSession, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if self._random.random() >= self._share:
                return await self._forward(request, session)
            self.failed += 1
            return await self._fail(request, session)
        except aiohttp.ClientError:  # either side has gone
            return _broken(request)

    async def _fail(self, request: web.BaseRequest, session: aiohttp.ClientSession) -> web.StreamResponse:
        how = self._random.choice([*REFUSALS, "reset", "answer lost"])
        if isinstance(how, int):
            body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": REFUSALS[how], "code": how}
            return web.json_response(body, status=how)
        if how == "answer lost" and "watch" not in request.query:
            async with await self._call(request, session) as answer:
                await answer.read()
        return _broken(request)

    async def _forward(self, request: web.BaseRequest, session: aiohttp.ClientSession) -> web.StreamResponse:
        async with await self._call(request, session) as answer:
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in OWN_HEADERS}
            response = web.StreamResponse(status=answer.status, headers=headers)
            response.enable_chunked_encoding()
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def _call(self, request: web.BaseRequest, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        return await session.request(
            request.method,
            URL(f"{self._server}{request.raw_path}", encoded=True),
            headers={name: value for name, value in request.headers.items() if name.lower() not in OWN_HEADERS},
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None, connect=5),
            allow_redirects=False,
        )


def _broken(request: web.BaseRequest) -> web.StreamResponse:
    """The connection ends."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()  # which nobody gets
