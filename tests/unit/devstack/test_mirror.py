"""A mirror is as the API server's last word on each object, and is not judged while a list is incomplete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from devstack.harness.mirror import Mirror
from services.common.errors import Unavailable
from services.common.kubernetes import Changed, Deleted, ListCompleted, ListStarted, Manifest, Reflection, Seen

KEY = ("team-a", "web")


def web(version: int) -> Manifest:
    name, namespace = "web", "team-a"
    return {"metadata": {"name": name, "namespace": namespace, "uid": "1", "resourceVersion": str(version)}}


async def following(*events: Reflection) -> AsyncGenerator[Reflection]:
    for event in events:
        yield event


async def mirror_of(*events: Reflection) -> Mirror:
    mirror = Mirror()
    await mirror.follow(following(*events))
    return mirror


async def test_object_when_it_changes_while_it_is_listed_then_the_newer_version_stays() -> None:
    mirror = await mirror_of(ListStarted(), Changed(web(2)), Seen(web(1)), ListCompleted(1))
    assert mirror.objects[KEY]["metadata"]["resourceVersion"] == "2"


async def test_object_when_it_is_removed_then_it_is_gone() -> None:
    mirror = await mirror_of(ListStarted(), Seen(web(1)), ListCompleted(1), Deleted(web(2)))
    assert dict(mirror.objects) == {}


async def test_objects_when_a_list_is_not_complete_then_nobody_is_told_that_something_is_missing() -> None:
    mirror = await mirror_of(ListStarted(), Seen(web(1)), ListCompleted(1), ListStarted())
    with pytest.raises(Unavailable, match="web is gone"):
        await mirror.until("web is gone", lambda objects: KEY not in objects, timeout_seconds=0.01)


async def test_wait_when_the_objects_become_so_then_it_ends() -> None:
    mirror = Mirror()
    waiting = asyncio.create_task(mirror.until("web", lambda objects: KEY in objects))
    await mirror.follow(following(ListStarted(), Seen(web(1)), ListCompleted(1)))
    await waiting
    assert KEY in mirror.objects
