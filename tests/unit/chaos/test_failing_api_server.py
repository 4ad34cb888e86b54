"""The proxy that makes calls fail: what it does not fail, it does not change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from chaos.execution.failing_api_server import HOST, FailingApiServer
from devstack.stack.pki import Pki

SEED = 5


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    pki = Pki(tmp_path / "kubernetes")
    pki.ensure(HOST)
    return pki


@asynccontextmanager
async def in_front_of_an_api_server(pki: Pki, share: float) -> AsyncIterator[tuple[str, list[str], FailingApiServer]]:
    """Its URL, and what the API server behind it was asked."""
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(f"{request.method} {request.raw_path} {(await request.read()).decode()}")
        return web.json_response({"kind": "Status"}, status=201, headers={"Warning": "299"})

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    proxy = FailingApiServer(
        f"http://{HOST}:{runner.addresses[0][1]}", pki.server_certificate, pki.server_key, share, SEED
    )
    try:
        async with proxy.serving() as port:
            yield f"https://{HOST}:{port}", asked, proxy
    finally:
        await runner.cleanup()


async def call(url: str) -> int | str:
    """The status, or how the connection ended."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False, force_close=True)) as session:
        try:
            async with session.post(f"{url}/apis/a%2Fb?fieldManager=x", data=b"{}") as answer:
                await answer.read()
                return answer.status
        except (TimeoutError, aiohttp.ClientError):
            return "broken"


async def test_call_when_it_shall_not_fail_then_it_arrives_and_is_answered_as_it_is(pki: Pki) -> None:
    async with in_front_of_an_api_server(pki, share=0) as (url, asked, proxy):
        assert await call(url) == 201
    assert (asked, proxy.failed) == (["POST /apis/a%2Fb?fieldManager=x {}"], 0)


async def test_calls_when_all_shall_fail_then_they_do_in_every_way_and_some_are_carried_out(pki: Pki) -> None:
    async with in_front_of_an_api_server(pki, share=1) as (url, asked, proxy):
        answers = [await call(url) for _ in range(40)]
    assert set(answers) == {429, 500, 503, "broken"}
    assert proxy.failed == 40
    assert 0 < len(asked) < answers.count("broken")
