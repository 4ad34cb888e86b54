"""Calls that are made until the API server has acknowledged them, however often it is killed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kubernetes import (
    AlreadyExists,
    ApiResource,
    KubeClient,
    Manifest,
    NamespaceTerminating,
    NotFound,
)

T = TypeVar("T")

PATIENCE_SECONDS = 900.0
"""Longer than any fault, a restart of everything on a busy machine included."""


class ApiCalls:
    """One who writes to the API server, under one name."""

    def __init__(self, kube: KubeClient, field_manager: str) -> None:
        self._kube, self._field_manager = kube, field_manager

    async def find(self, resource: ApiResource, namespace: str | None, name: str) -> Manifest | None:
        """The object, if it is there."""
        try:
            return await until_acknowledged(
                lambda: of_known_kind(resource, name, self._kube.get_object(resource, namespace, name))
            )
        except NotFound:
            return None

    async def create(self, resource: ApiResource, manifest: Manifest) -> Manifest:
        """The object as it was stored; one that is there already counts: the answer to an earlier call was lost."""
        meta = manifest["metadata"]
        while True:
            with suppress(AlreadyExists):
                return await until_acknowledged(
                    lambda: self._kube.create_object(resource, manifest, field_manager=self._field_manager)
                )
            if (found := await self.find(resource, meta.get("namespace"), meta["name"])) is not None:
                return found

    async def replace(self, resource: ApiResource, found: Manifest, part: str, value: object) -> Manifest | None:
        """``found`` with ``value`` in place of one part; None if it is gone."""
        meta = found["metadata"]
        patch = [{"op": "replace", "path": f"/{part}", "value": value}]
        return await self._patch(resource, meta.get("namespace"), meta["name"], patch)

    async def merge(self, resource: ApiResource, namespace: str | None, name: str, patch: Manifest) -> Manifest | None:
        """The object with some fields changed; None if it is gone."""
        return await self._patch(resource, namespace, name, patch)

    async def _patch(
        self, resource: ApiResource, namespace: str | None, name: str, patch: Manifest | list[Manifest]
    ) -> Manifest | None:
        try:
            return await until_acknowledged(
                lambda: of_known_kind(
                    resource,
                    name,
                    self._kube.patch_object(resource, namespace, name, patch, field_manager=self._field_manager),
                )
            )
        except NotFound:
            return None

    async def delete(self, resource: ApiResource, namespace: str | None, name: str) -> None:
        """Ask for its deletion; it may be gone already."""
        with suppress(NotFound):
            await until_acknowledged(
                lambda: of_known_kind(resource, name, self._kube.delete_object(resource, namespace, name))
            )

    async def clear(self, resource: ApiResource, namespace: str) -> None:
        """Delete all of a kind in a namespace, and wait until it is gone. Raises Unavailable."""
        for name in await until_acknowledged(lambda: of_known_kind(resource, "", self._names(resource, namespace))):
            await self.delete(resource, namespace, name)
            await self.until_gone(resource, namespace, name)

    async def _names(self, resource: ApiResource, namespace: str) -> list[str]:
        items = [item async for page in self._kube.list_pages(resource, namespace) for item in page.items]
        return [item["metadata"]["name"] for item in items]

    async def until_gone(self, resource: ApiResource, namespace: str | None, name: str) -> None:
        """Wait for the end of what is being deleted. Raises Unavailable."""
        await self._until(resource, namespace, name, "is gone", lambda found: found is None)

    async def until(
        self, resource: ApiResource, namespace: str | None, name: str, holds: Callable[[Manifest], bool]
    ) -> Manifest:
        """Wait until the object is there and something is true of it. Raises Unavailable."""
        found = await self._until(
            resource, namespace, name, "is as it shall be", lambda found: found is not None and holds(found)
        )
        assert found is not None  # noqa: S101 - for the type
        return found

    async def _until(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        what: str,
        holds: Callable[[Manifest | None], bool],
    ) -> Manifest | None:
        delays = Backoff(first=0.05, limit=1)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if holds(found := await self.find(resource, namespace, name)):
                        return found
                    await asyncio.sleep(delays.next_delay())
        except TimeoutError:
            raise Unavailable(
                f"not within {PATIENCE_SECONDS:g} s: {resource.kind} {namespace or ''}/{name} {what}"
            ) from None


async def of_known_kind(resource: ApiResource, name: str, answer: Awaitable[T]) -> T:
    """The answer about one object. Raises NotFound if it is not there, Retry if the API server does not know its kind.

    An API server that has just started knows no custom resources for a moment, and says 404 of each.
    """
    try:
        return await answer
    except NotFound as error:
        if error.is_of(resource.plural, name):
            raise
        raise Retry(str(error)) from error


async def until_acknowledged(call: Callable[[], Awaitable[T]]) -> T:
    """What ``call`` returns once the API server answers. Raises Unavailable; NotFound, AlreadyExists at once."""
    delays = Backoff(first=0.05, limit=2)
    last = ""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    return await call()
                except (Retry, NamespaceTerminating) as error:
                    last = str(error)
                await asyncio.sleep(delays.next_delay())
    except TimeoutError:
        raise Unavailable(f"the API server does not answer for {PATIENCE_SECONDS:g} s: {last}") from None
