"""An informer: list, watch and a store of what exists, as in client-go."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Hashable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.common.kubernetes.reflector import Reflection
from services.common.kubernetes.store import ObjectStore

KeyT = TypeVar("KeyT", bound=Hashable)
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Informer(Generic[KeyT, ItemT]):
    """Keeps ``store`` as ``events``, those of one collection, say."""

    events: AsyncGenerator[Reflection]
    store: ObjectStore[KeyT, ItemT]

    async def changes(self) -> AsyncIterator[tuple[Reflection, list[KeyT]]]:
        """For ever: each event, once the store is as it says, and the keys of the objects that changed by it."""
        async with aclosing(self.events) as events:
            async for event in events:
                yield event, self.store.observe_event(event)
