"""What tests take for all that has happened to objects: every version that there was, however late a watch shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from services.common.errors import Unavailable
from services.common.kubernetes import (
    CONFIG_MAP,
    Changed,
    Deleted,
    KubeClient,
    ListCompleted,
    ListStarted,
    Manifest,
    Reflection,
    Seen,
)
from services.common.kubernetes.client import Page
from tests.e2e import version_history
from tests.e2e.version_history import require_gapless, versions_seen


def settings(version: int, name: str = "settings") -> Manifest:
    return {"metadata": {"name": name, "namespace": "team-a", "uid": name, "resourceVersion": str(version)}}


class Server:
    """An API server of one object: a watch shows how it was at first, and what followed once that is read."""

    def __init__(self, first: Manifest, *later: Changed | Deleted) -> None:
        self._first = first
        self._later = later
        self._is_read = asyncio.Event()

    def watched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the histories of the test."""
        monkeypatch.setattr(version_history, "reflect", self.reflect)

    async def list_pages(self, *_: object, **__: object) -> AsyncGenerator[Page]:
        """What is there in the end."""
        self._is_read.set()
        last = self._later[-1]
        items = [] if isinstance(last, Deleted) else [last.object]
        yield Page(items, last.object["metadata"]["resourceVersion"])

    async def reflect(self, *_: object, **__: object) -> AsyncGenerator[Reflection]:
        """All, in turn."""
        for event in (ListStarted(), Seen(self._first), ListCompleted(1)):
            yield event
        await self._is_read.wait()
        for each in self._later:
            await asyncio.sleep(0)
            yield each
        await asyncio.Event().wait()


LATER: dict[str, tuple[Changed | Deleted, ...]] = {
    "changed": (Changed(settings(2)), Changed(settings(3))),
    "deleted": (Changed(settings(2)), Deleted(settings(3))),
    "made again": (Deleted(settings(2)), Changed(settings(3))),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
async def test_versions_when_the_watch_is_behind_then_they_are_all_that_there_were_when_asked(
    later: tuple[Changed | Deleted, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(settings(1), *later)
    server.watched(monkeypatch)
    async with versions_seen(cast("KubeClient", server), CONFIG_MAP, "team-a") as history:
        assert history.noted == [Seen(settings(1))]
        assert await history.until_now() == [Seen(settings(1)), *later]


async def test_versions_when_the_watch_never_shows_the_last_then_nobody_takes_them_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(settings(1), Changed(settings(2)))
    monkeypatch.setattr(version_history, "WATCHED_SECONDS", 0.01)
    monkeypatch.setattr(version_history, "reflect", Server(settings(1)).reflect)
    async with versions_seen(cast("KubeClient", server), CONFIG_MAP, "team-a") as history:
        with pytest.raises(Unavailable, match="a watch shows the configmaps of team-a as they are"):
            await history.until_now()


def test_versions_when_the_same_is_listed_anew_then_none_is_missing() -> None:
    require_gapless([Seen(settings(1)), Changed(settings(2)), Seen(settings(2)), Changed(settings(3))])


def test_versions_when_another_is_listed_anew_then_nobody_knows_them_all() -> None:
    with pytest.raises(Unavailable, match="between versions 2 and 4 is lost"):
        require_gapless([Seen(settings(1)), Changed(settings(2)), Seen(settings(4))])
