"""What the simulator does if the API server does not take what it writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from devstack.argocd_simulator.simulator import Pace, Simulator
from services.common.errors import GitOpsError, Retry
from services.common.kubernetes import Changed, Conflict, Reflection, Rejected
from tests.unit.devstack.argocd_simulator.test_behaviour import application


class FakeClient:
    """Answers with ``errors`` first. A write by the other name says that the writes before it are over."""

    def __init__(self, errors: list[GitOpsError]) -> None:
        self.errors = errors
        self.written = 0
        self.over = asyncio.Event()

    async def patch_object(self, _: Any, namespace: str, name: str, *__: Any, **___: Any) -> None:
        if name == "last":
            self.over.set()
            return
        self.written += 1
        if self.errors:
            raise self.errors.pop(0)


async def writes(errors: list[GitOpsError]) -> int:
    """How often an Application is written; one worker, so that they follow each other."""
    client: Any = FakeClient(errors)

    async def follow(_: str) -> AsyncIterator[Reflection]:
        for name in ("app", "last"):
            yield Changed(application(name=name))

    return await _while_running(Simulator(client, follow, ["argocd"], Pace(concurrency=1)).run, client)


async def _while_running(run: Callable[[], Awaitable[None]], client: FakeClient) -> int:
    running = asyncio.ensure_future(run())
    async with asyncio.timeout(10):
        await client.over.wait()
    running.cancel()
    return client.written


@pytest.mark.parametrize("error", [Retry("away"), Rejected("its rules are not loaded yet", 403)], ids=str)
async def test_write_when_it_may_work_later_then_it_is_tried_again(error: GitOpsError) -> None:
    assert await writes([error, error]) == 3


@pytest.mark.parametrize("error", [Conflict("it changed"), Rejected("it never works", 422)], ids=str)
async def test_write_when_it_cannot_work_then_it_is_not_tried_again(error: GitOpsError) -> None:
    assert await writes([error]) == 1
