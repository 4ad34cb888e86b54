"""What an agent finds missing before it starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from services.agent.kinds import KINDS, VERBS
from services.agent.preflight import believed, check_namespace
from services.common.errors import GitOpsError, NoPermission, Retry
from services.common.kube import KubeClient, Manifest, NotFound, Refused, Resource

FORBIDDEN = Refused("API server answered 403 Forbidden: no", 403)


class FakeClient:
    """Answers access reviews."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str]] = set()
        self.review_error: GitOpsError | None = None
        self.list_error: GitOpsError | None = None
        self.reviewed: list[tuple[str, str]] = []

    async def pages(self, resource: Resource, namespace: str, *, limit: int) -> AsyncIterator[Any]:
        if self.list_error is not None:
            raise self.list_error
        yield None

    async def create(self, resource: Resource, manifest: Manifest, *, field_manager: str) -> Manifest:
        if self.review_error is not None:
            raise self.review_error
        asked = manifest["spec"]["resourceAttributes"]
        self.reviewed.append((asked["verb"], asked["resource"]))
        return {"status": {"allowed": (asked["verb"], asked["resource"]) not in self.denied}}


async def check(client: FakeClient) -> None:
    await check_namespace(cast("KubeClient", client), "argocd")


async def test_rights_when_all_are_there_then_every_call_was_asked_about() -> None:
    client = FakeClient()
    await check(client)
    plurals = [kind.resource.plural for kind in KINDS.values()]
    assert set(client.reviewed) == {(verb, plural) for verb in VERBS for plural in plurals}
    assert ("patch", "secrets") in client.reviewed


@pytest.mark.parametrize("missing", [("watch", "secrets"), ("delete", "applications"), ("patch", "appprojects")])
async def test_rights_when_one_is_missing_then_it_is_named(missing: tuple[str, str]) -> None:
    client = FakeClient()
    client.denied = {missing}
    with pytest.raises(NoPermission, match=f"may not {missing[0]} {missing[1]}.* in namespace argocd"):
        await check(client)


async def test_rights_when_even_asking_is_forbidden_then_that_is_named_and_nothing_else() -> None:
    client = FakeClient()
    client.review_error = FORBIDDEN
    with pytest.raises(NoPermission, match=r"may not create selfsubjectaccessreviews\.authorization\.k8s\.io"):
        await check(client)


async def test_list_when_it_is_forbidden_then_it_is_named() -> None:
    client = FakeClient()
    client.list_error = FORBIDDEN
    with pytest.raises(NoPermission, match=r"may not list applications\.argoproj\.io"):
        await check(client)


async def test_crds_when_they_are_missing_then_the_start_waits_for_them() -> None:
    client = FakeClient()
    client.list_error = NotFound("404")
    with pytest.raises(Retry, match="Argo CD's CRDs"):
        await check(client)


async def test_right_when_it_is_missing_for_a_moment_only_then_the_start_goes_on() -> None:
    client = FakeClient()
    client.list_error = FORBIDDEN
    asked = []

    async def look() -> None:
        asked.append(client.list_error)
        try:
            await check(client)
        finally:
            client.list_error = None

    await believed(look, seconds=5)
    assert asked == [FORBIDDEN, None]


async def test_right_when_it_is_still_missing_in_the_end_then_it_is_named() -> None:
    client = FakeClient()
    client.denied = {("watch", "secrets")}
    with pytest.raises(NoPermission, match="may not watch secrets"):
        await believed(lambda: check(client), seconds=0)


async def test_api_server_when_it_does_not_answer_then_it_is_not_asked_again_here() -> None:
    client = FakeClient()
    client.list_error = NotFound("404")
    with pytest.raises(Retry):
        await believed(lambda: check(client), seconds=5)
