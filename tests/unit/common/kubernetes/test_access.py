"""A missing right is believed when it stays missing: an API server that has just started knows none yet."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, InvalidConfiguration, NoPermission, Retry, Unavailable
from services.common.kubernetes import (
    SECRET,
    Access,
    ApiResource,
    Manifest,
    NotFound,
    Rejected,
    Unauthenticated,
    access,
    require_access,
)
from services.common.kubernetes.client import Page

FORBIDDEN = Rejected("API server answered 403 Forbidden: no", 403)
SECRETS = Access(SECRET, ("get", "patch/status"), remedy="grant it", not_served="install it", namespace="argocd")


class FakeKube:
    """Lists with these outcomes, and grants rights with those; the last one for ever."""

    def __init__(self, lists: list[GitOpsError | None], grants: list[bool | GitOpsError]) -> None:
        self.lists, self.grants = lists, grants
        self.listed: list[tuple[str | None, str, bool]] = []
        self.reviewed: list[dict[str, str]] = []

    async def list_pages(
        self, _: ApiResource, namespace: str | None, *, fields: str, limit: int, metadata_only: bool
    ) -> AsyncGenerator[Page]:
        self.listed.append((namespace, fields, metadata_only))
        error = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if error is not None:
            raise error
        yield Page([], "1")

    async def create_object(self, _: ApiResource, manifest: Manifest, **__: Any) -> Manifest:
        self.reviewed.append(manifest["spec"]["resourceAttributes"])
        answer = self.grants.pop(0) if len(self.grants) > 1 else self.grants[0]
        if isinstance(answer, GitOpsError):
            raise answer
        return {"status": {"allowed": answer}}


def kube(*, lists: list[GitOpsError | None] | None = None, grants: list[bool | GitOpsError] | None = None) -> Any:
    return FakeKube(lists or [None], grants or [True])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "Backoff", lambda limit: Backoff(first=0.001, limit=limit / 100))
    monkeypatch.setattr(access, "START_GRACE_SECONDS", 0.05)


async def test_rights_when_all_are_there_then_each_was_asked_about_where_it_is_needed() -> None:
    client = kube()
    await require_access(client, SECRETS, 10)
    assert client.listed == [("argocd", "", False)]
    asked = [(each["verb"], each["resource"], each["subresource"], each["namespace"]) for each in client.reviewed]
    assert asked == [("get", "secrets", "", "argocd"), ("patch", "secrets", "status", "argocd")]


PASSING: dict[str, Any] = {
    "list-forbidden": {"lists": [FORBIDDEN, FORBIDDEN, None]},
    "credentials-refused": {"lists": [Unauthenticated("401"), None]},
    "right-missing": {"grants": [False, False, True]},
    "review-forbidden": {"grants": [FORBIDDEN, True]},
    "api-server-away": {"lists": [Retry("away"), None]},
    "kind-not-served": {"lists": [NotFound("404"), None]},
}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
async def test_right_when_missing_for_a_moment_then_the_start_goes_on(trouble: Any) -> None:
    await require_access(kube(**trouble), SECRETS, 10)


LASTING: dict[str, tuple[Any, str]] = {
    "list-forbidden": ({"lists": [FORBIDDEN]}, "may not list secrets in namespace argocd: .*; grant it"),
    "credentials-refused": ({"lists": [Unauthenticated("401")]}, "our credentials are refused: 401; grant it"),
    "right-missing": ({"grants": [False]}, "may not get secrets in namespace argocd; grant it"),
    "review-forbidden": ({"grants": [FORBIDDEN]}, r"may not create selfsubjectaccessreviews\.authorization\.k8s\.io"),
}


@pytest.mark.parametrize(("trouble", "text"), LASTING.values(), ids=LASTING)
@pytest.mark.parametrize("timeout_seconds", [0.01, 10])
async def test_right_when_it_stays_missing_then_the_start_fails_within_its_time_and_names_it(
    trouble: Any, text: str, timeout_seconds: float
) -> None:
    with pytest.raises(NoPermission, match=text):
        await require_access(kube(**trouble), SECRETS, timeout_seconds)


async def test_list_when_refused_for_another_reason_then_the_start_fails_at_once() -> None:
    with pytest.raises(InvalidConfiguration, match=r"may not list secrets .*: what"):
        await require_access(kube(lists=[Rejected("what?", 400), None]), SECRETS, 10)


async def test_kind_when_not_served_in_time_then_the_remedy_is_told() -> None:
    with pytest.raises(InvalidConfiguration, match="does not serve secrets; install it"):
        await require_access(kube(lists=[NotFound("no")]), SECRETS, 0.05)


async def test_kind_when_not_served_and_it_may_be_missing_then_the_rights_are_needed_all_the_same() -> None:
    may_be_missing = replace(SECRETS, may_be_missing=True)
    await require_access(kube(lists=[NotFound("no")]), may_be_missing, 0.05)
    with pytest.raises(NoPermission, match="may not get secrets in namespace argocd; grant it"):
        await require_access(kube(lists=[NotFound("no")], grants=[False]), may_be_missing, 0.05)


async def test_api_server_when_away_for_longer_than_the_start_may_take_then_that_is_told() -> None:
    with pytest.raises(Unavailable, match=r"API server did not answer within 0\.05 s: connection refused"):
        await require_access(kube(lists=[Retry("connection refused")]), SECRETS, 0.05)
