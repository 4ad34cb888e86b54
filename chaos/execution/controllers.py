"""Controllers of AppStudio that are played here: in each tenant's namespace, whatever becomes of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from services.common.errors import Retry, Wait
from services.common.kubernetes import NotFound

PAUSE_SECONDS = 0.5

Control = Callable[[str], Awaitable[None]]
"""Serves a namespace, until the API server goes away."""


async def control_each(namespaces: Iterable[str], *controls: Control) -> None:
    """For ever, with all of ``controls`` in each namespace."""
    async with asyncio.TaskGroup() as group:
        for namespace in namespaces:
            for control in controls:
                group.create_task(_control(namespace, control))


async def _control(namespace: str, control: Control) -> None:
    while True:
        try:
            await control(namespace)
        except (Retry, Wait, NotFound):  # it begins anew, with a list
            await asyncio.sleep(PAUSE_SECONDS)
