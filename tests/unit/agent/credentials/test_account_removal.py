"""Service accounts that an environment has turned away from, on servers of strangers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import web

from services.agent.credentials.check_result import ClusterUnavailable
from services.common.kubernetes import Manifest
from services.common.messages.compiled import RELEASE
from tests.unit.agent.credentials.given import TOKEN, UID, Given, Stranger, data_of, kubeconfig, stranger

ACCOUNT = f"/api/v1/namespaces/kube-system/serviceaccounts/argocd-manager-{UID}"
SILENT = "https://127.0.0.1:1"


async def cluster(request: web.Request) -> web.Response:
    """As much of an API server as an installation needs; its tokens are numbered."""
    if request.path.endswith("/token"):
        status = {"token": f"MADE-{request.host}", "expirationTimestamp": "2026-01-02T00:00:00Z"}
        return web.json_response({"status": status})
    if request.method == "GET" and request.path == ACCOUNT:
        return web.json_response({}, status=404)
    return web.json_response({"kind": "APIGroupDiscoveryList", "items": []})


async def broken(request: web.Request) -> web.Response:
    return web.json_response({}, status=500)


@asynccontextmanager
async def servers(folder: Path, handler: Any = cluster) -> AsyncIterator[tuple[Stranger, Stranger]]:
    """The server of former times, and the present one."""
    async with stranger(folder / "pki", cluster) as former, stranger(folder / "pki", handler) as present:
        yield former, present


async def made(given: Given, server: Stranger, **recipe: Any) -> Manifest:
    """The Argo CD Secret of an environment on ``server``."""
    values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
    row = given.cluster_row(server.url, values, createServiceAccount=True, **recipe)
    composed = await given.checker().compose_secret(row, None)
    assert composed.secret is not None
    server.requests.clear()
    return composed.secret


def removed(server: Stranger) -> list[tuple[str, str]]:
    """Who removed what."""
    deletions = (each for each in server.requests if each.method == "DELETE")
    return [(each.headers["Authorization"].removeprefix("Bearer "), each.path) for each in deletions]


@pytest.mark.parametrize("creates", [True, False])
async def test_api_url_when_it_changes_then_the_account_on_the_former_server_goes_by_its_own_token(
    given: Given, tmp_path: Path, creates: bool
) -> None:
    async with servers(tmp_path) as (former, present):
        live = await made(given, former, namespaces=["apps"])
        values = {"kubeconfig": kubeconfig(present.url, authority=present.authority)}
        row = given.cluster_row(present.url, values, createServiceAccount=creates)
        with structlog.testing.capture_logs() as lines:
            composed = await given.checker().compose_secret(row, live)
    assert composed.secret is not None
    token = json.loads(data_of(composed.secret)["config"])["bearerToken"]
    assert token == (f"MADE-{present.url.removeprefix('https://')}" if creates else TOKEN)
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/apps"
    gone = [
        ACCOUNT,
        f"{roles}/rolebindings/argocd-manager-role-binding-{UID}",
        f"{roles}/roles/argocd-manager-role-{UID}",
    ]
    mine = f"MADE-{former.url.removeprefix('https://')}"
    assert removed(former) == [(mine, path) for path in gone]
    assert [(line["event"], line["uid"]) for line in lines] == [("service account removed", UID)]


async def test_api_url_when_it_changes_and_the_former_server_is_gone_then_the_secret_is_made_all_the_same(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", cluster) as former:
        live = await made(given, former)
    async with stranger(tmp_path / "pki", cluster) as present:
        values = {"kubeconfig": kubeconfig(present.url, authority=present.authority)}
        with structlog.testing.capture_logs() as lines:
            composed = await given.checker().compose_secret(given.cluster_row(present.url, values), live)
    assert composed.secret is not None
    assert "annotations" not in composed.secret["metadata"]
    assert [line["event"] for line in lines] == ["service account left behind"]


async def test_api_url_when_the_new_server_fails_its_check_then_the_account_on_the_former_one_stays(
    given: Given, tmp_path: Path
) -> None:
    async with servers(tmp_path, broken) as (former, present):
        live = await made(given, former)
        values = {"kubeconfig": kubeconfig(present.url, authority=present.authority)}
        row = given.cluster_row(present.url, values, createServiceAccount=True)
        composed = await given.checker().compose_secret(row, live)
    assert composed.secret is None
    assert former.requests == []


async def test_environment_when_disposed_before_its_new_server_was_reached_then_both_are_cleared(
    given: Given, tmp_path: Path
) -> None:
    async with servers(tmp_path) as (former, present):
        live = await made(given, former)
        values = {"kubeconfig": kubeconfig(present.url, authority=present.authority)}
        row = given.cluster_row(present.url, values, createServiceAccount=True)
        await given.checker().remove_account(row, live)
    assert removed(former)[0][1] == ACCOUNT
    assert removed(present)[-1][1] == ACCOUNT


async def test_environment_when_disposed_right_after_it_wanted_no_account_any_more_then_that_is_removed(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", cluster) as server:
        live = await made(given, server)
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values, createServiceAccount=False)
        between = (await given.checker().compose_secret(row, live)).secret
        await given.checker().remove_account(row, between)
    assert (TOKEN, ACCOUNT) in removed(server)


async def test_environment_when_disposed_without_its_credentials_then_a_former_account_goes_by_its_own_token(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", cluster) as server:
        live = await made(given, server)
        row = replace(given.cluster_row(server.url, {}), desired="absent")
        manifest = json.loads(row.manifest)
        del manifest["recipe"]["secret"]
        bare = replace(row, manifest=json.dumps(manifest))
        await given.checker().remove_account(bare, None)
        assert removed(server) == []
        await given.checker().remove_account(bare, live)
    assert (f"MADE-{server.url.removeprefix('https://')}", ACCOUNT) in removed(server)


SPOILT: dict[str, tuple[int, dict[str, str | bytes] | None]] = {
    "token-expired": (401, None),
    "rights-taken-away": (403, None),
    "kubeconfig-broken": (200, {"kubeconfig": "broken: ["}),
    "kubeconfig-gone": (200, {}),
}


@pytest.mark.parametrize(("status", "values"), SPOILT.values(), ids=SPOILT)
async def test_environment_when_disposed_and_its_kubeconfig_is_of_no_use_then_the_account_goes_by_its_own_token(
    given: Given, tmp_path: Path, status: int, values: dict[str, str | bytes] | None
) -> None:
    spoilt = False

    async def refusing(request: web.Request) -> web.Response:
        if spoilt and request.headers["Authorization"] == f"Bearer {TOKEN}":
            return web.json_response({}, status=status)
        return await cluster(request)

    async with stranger(tmp_path / "pki", refusing) as server:
        live = await made(given, server)
        spoilt = True
        kept: dict[str, str | bytes] = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, kept if values is None else values, createServiceAccount=True)
        await given.checker().remove_account(row, live)
    assert (f"MADE-{server.url.removeprefix('https://')}", ACCOUNT) in removed(server)


async def test_environment_when_disposed_and_no_token_is_of_use_then_given_up_and_told_to_the_operator(
    given: Given, tmp_path: Path
) -> None:
    refuses = False

    async def refusing(request: web.Request) -> web.Response:
        return web.json_response({}, status=401) if refuses else await cluster(request)

    async with stranger(tmp_path / "pki", refusing) as server:
        live = await made(given, server)
        refuses = True
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values, createServiceAccount=True)
        with structlog.testing.capture_logs() as lines:
            await given.checker().remove_account(row, live)
    assert [line["event"] for line in lines] == ["service account left behind"]


async def test_environment_when_it_never_had_an_account_then_nobody_is_asked_at_its_end(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", cluster) as server:
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        row = given.cluster_row(server.url, values)
        live = (await given.checker().compose_secret(row, None)).secret
        server.requests.clear()
        await given.checker().remove_account(row, live)
    assert server.requests == []


async def test_environment_when_disposed_and_its_former_server_is_silent_then_that_is_said(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", cluster) as former:
        live = await made(given, former)
    row = given.cluster_row(SILENT, {"kubeconfig": kubeconfig(SILENT)})
    with pytest.raises(ClusterUnavailable):
        await given.checker().remove_account(row, live)


async def test_secret_when_it_notes_the_account_of_another_environment_then_nobody_is_asked(
    given: Given, tmp_path: Path
) -> None:
    async with servers(tmp_path) as (former, present):
        live = await made(given, former, uid="another")
        values = {"kubeconfig": kubeconfig(present.url, authority=present.authority)}
        row = given.cluster_row(present.url, values)
        assert (await given.checker().compose_secret(row, live)).secret is not None
        await given.checker().remove_account(row, live)
    assert former.requests == []


async def test_absent_environment_when_its_row_holds_no_secret_any_more_then_the_account_removes_itself(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", cluster) as server:
        live = await made(given, server)
        row = replace(given.cluster_row(server.url, {}, secret={}), desired="absent")
        await given.checker().remove_account(row, live)
    assert (f"MADE-{server.url.removeprefix('https://')}", ACCOUNT) in removed(server)


def test_environment_when_no_account_was_asked_for_then_nothing_was_left_but_what_its_secret_notes(
    given: Given,
) -> None:
    checker = given.checker()
    row = replace(given.cluster_row(SILENT, {}, secret={}), desired="absent")
    assert not checker.may_have_account(row, {})
    assert checker.may_have_account(row, {"managed-gitops.redhat.com/service-account-of": UID})
    assert checker.may_have_account(given.cluster_row(SILENT, {}, createServiceAccount=True), {})
    assert not checker.may_have_account(given.repository_row("https://example.com/repo", {}), {})


def test_cluster_when_another_instance_has_it_then_its_account_is_not_to_be_removed(given: Given) -> None:
    row = given.cluster_row(SILENT, {}, createServiceAccount=True)
    handed_over = replace(row, desired="absent", manifest=json.dumps(json.loads(row.manifest) | {RELEASE: True}))
    assert not given.checker().may_have_account(handed_over, {"managed-gitops.redhat.com/service-account-of": UID})
