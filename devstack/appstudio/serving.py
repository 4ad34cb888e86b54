"""What every controller that is played here does: looks at each object as it is, and again at each change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Protocol

from services.common.kubernetes import ApiResource, Changed, Conflict, KubeClient, Manifest, NotFound, Seen, reflect


class Controller(Protocol):
    """One that is played."""

    async def run(self) -> None:
        """For ever."""


@asynccontextmanager
async def played(*controllers: Controller) -> AsyncIterator[None]:
    """For as long as the block runs there are these controllers."""
    tasks = [asyncio.create_task(each.run()) for each in controllers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def serve_each(
    kube: KubeClient, resource: ApiResource, namespace: str | None, serve: Callable[[Manifest], Awaitable[None]]
) -> None:
    """Have ``serve`` look at each object, of one namespace or of all, for ever."""
    async with aclosing(reflect(kube, resource, namespace)) as events:
        async for event in events:
            if isinstance(event, Seen | Changed):
                with suppress(Conflict, NotFound):  # its next state is seen, too
                    await serve(event.object)
