"""A missing right is believed when it stays missing: an API server that has just started knows none yet."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, InvalidConfiguration, NoPermission
from services.common.kube import Manifest, NotFound, Refused
from services.common.kube.client import Page
from services.watcher import access
from services.watcher.kinds import CUSTOM_KINDS

DEPLOYMENTS = CUSTOM_KINDS[0]
FORBIDDEN = Refused("forbidden", 403)


class FakeKube:
    """Lists with these outcomes, and grants rights with those; the last one for ever."""

    def __init__(self, lists: list[GitOpsError | None], grants: list[bool]) -> None:
        self.lists, self.grants = lists, grants

    async def pages(self, *_: Any, **__: Any) -> AsyncGenerator[Page]:
        error = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if error is not None:
            raise error
        yield Page([], "1")

    async def create(self, *_: Any, **__: Any) -> Manifest:
        return {"status": {"allowed": self.grants.pop(0) if len(self.grants) > 1 else self.grants[0]}}


def kube(*, lists: list[GitOpsError | None] | None = None, grants: list[bool] | None = None) -> Any:
    return FakeKube(lists or [None], grants or [True])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "Backoff", lambda limit: Backoff(first=0.001, limit=limit / 100))
    monkeypatch.setattr(access, "FORBIDDEN_SECONDS", 0.05)


@pytest.mark.parametrize(
    "trouble",
    [{"lists": [FORBIDDEN, FORBIDDEN, None]}, {"grants": [False, False, True]}],
    ids=["list", "right"],
)
async def test_right_when_missing_for_a_moment_then_the_start_goes_on(trouble: Any) -> None:
    await access.require(kube(**trouble), DEPLOYMENTS, 10)


@pytest.mark.parametrize("trouble", [{"lists": [FORBIDDEN]}, {"grants": [False]}], ids=["list", "right"])
@pytest.mark.parametrize("timeout_seconds", [0.01, 10])
async def test_right_when_it_stays_missing_then_the_start_fails_within_its_time(
    trouble: Any, timeout_seconds: float
) -> None:
    with pytest.raises(NoPermission, match="may not"):
        await access.require(kube(**trouble), DEPLOYMENTS, timeout_seconds)


async def test_list_when_refused_for_another_reason_then_the_start_fails_at_once() -> None:
    with pytest.raises(InvalidConfiguration, match="refuses to list"):
        await access.require(kube(lists=[Refused("what?", 400), None]), DEPLOYMENTS, 10)


async def test_kind_when_not_served_in_time_then_the_remedy_is_told() -> None:
    with pytest.raises(InvalidConfiguration, match="crds apply"):
        await access.require(kube(lists=[NotFound("no")]), DEPLOYMENTS, 0.05)


async def test_lease_when_its_right_is_missing_for_a_moment_then_the_start_goes_on_else_not() -> None:
    await access.require_lease(kube(grants=[False, True]), "gitops-service", 10)
    with pytest.raises(NoPermission, match="leases in namespace gitops-service"):
        await access.require_lease(kube(grants=[False]), "gitops-service", 10)
