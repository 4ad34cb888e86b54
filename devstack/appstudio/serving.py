"""What every controller that is played here does: looks at each object as it is, and again at each change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from services.common.kubernetes import ApiResource, Changed, Conflict, KubeClient, Manifest, NotFound, Seen, reflect


async def serve_each(
    kube: KubeClient, resource: ApiResource, namespace: str | None, serve: Callable[[Manifest], Awaitable[None]]
) -> None:
    """Have ``serve`` look at each object, of one namespace or of all, for ever."""
    async with aclosing(reflect(kube, resource, namespace)) as events:
        async for event in events:
            if isinstance(event, Seen | Changed):
                with suppress(Conflict, NotFound):  # its next state is seen, too
                    await serve(event.object)
