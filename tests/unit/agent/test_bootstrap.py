"""What an agent does before it starts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.agent import bootstrap
from services.agent.bootstrap import accesses, check_cluster, follow
from services.agent.objects.managed_kinds import KINDS, VERBS
from services.common.errors import NoPermission
from services.common.kubernetes import Access, ListCompleted, Rejected, access
from services.common.kubernetes.client import Page

HOUR = 3600.0


def test_rights_when_asked_about_then_they_are_every_call_to_every_kind_in_the_engine_namespace() -> None:
    found = {(access.resource, access.verbs, access.namespace) for access in accesses("argocd")}
    assert found == {(kind.resource, VERBS, "argocd") for kind in KINDS.values()}
    assert "patch" in VERBS


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Engine namespaces in which the agent may nothing."""
    found: set[str] = set()

    @asynccontextmanager
    async def connection() -> AsyncIterator[None]:
        yield None

    async def connect(_: object) -> Any:
        return connection()

    async def require_access(_: object, wanted: Access, __: float) -> None:
        if wanted.namespace in found:
            raise NoPermission(f"may not list in namespace {wanted.namespace}")

    monkeypatch.setattr(bootstrap, "connect", connect)
    monkeypatch.setattr(bootstrap, "require_access", require_access)
    return found


def test_start_when_an_engine_namespace_is_closed_then_the_others_are_served(closed: set[str]) -> None:
    closed.add("lost")
    with capture_logs() as logs:
        check_cluster(None, ["argocd", "lost"], 1)
    assert [line["error"] for line in logs] == ["may not list in namespace lost"]


def test_start_when_every_engine_namespace_is_closed_then_it_fails_and_names_one(closed: set[str]) -> None:
    closed.update(("argocd", "lost"))
    with pytest.raises(NoPermission, match="argocd"):
        check_cluster(None, ["argocd", "lost"], 1)


class ClosedCluster:
    """Forbids the first lists."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals

    async def list_pages(self, *_: object, **__: object) -> AsyncGenerator[Page]:
        if self._refusals:
            self._refusals -= 1
            raise Rejected("forbidden", 403)
        yield Page([], "1")

    async def watch_objects(self, *_: object, **__: object) -> AsyncGenerator[Any]:
        return
        yield


async def test_follow_when_it_is_forbidden_for_hours_then_it_goes_on_once_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = count(step=HOUR)
    monkeypatch.setattr(access.SystemClock, "time", lambda _: next(times))
    cluster: Any = ClosedCluster(refusals=3)
    async with aclosing(follow(cluster, KINDS["Application"], "argocd")) as events:
        async for event in events:
            if isinstance(event, ListCompleted):
                break
