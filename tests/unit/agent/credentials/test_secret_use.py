"""Rows that were changed on their way: a Secret goes only to where, and in the way, its tenant has asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.common.messages import EngineResource
from tests.unit.agent.credentials.given import SETTINGS, Given, answers, kubeconfig, stranger

LOGIN = {"username": "ann", "password": "PLANTED-PASSWORD"}
VICTIM = "https://git.example.com/team-a/private.git"
API_URL = "https://api.example.com:6443"


async def test_login_when_the_row_names_another_server_then_that_is_not_asked(given: Given, tmp_path: Path) -> None:
    trusting = replace(given, settings=replace(SETTINGS, git_authorities=tmp_path / "pki" / "ca.crt"))
    async with stranger(tmp_path / "pki", answers({})) as attacker:
        row = trusting.with_recipe(trusting.repository_row(VICTIM, LOGIN), repository=f"{attacker.url}/app.git")
        result = await trusting.checker().compose_secret(row, None)
    assert (result.secret, result.reason) == (None, "SecretUseRefused")
    assert "it was given for another URL" in result.message
    assert attacker.requests == []


async def test_login_when_another_resource_may_use_it_there_then_only_for_the_same_secret(
    given: Given, tmp_path: Path
) -> None:
    """Of the attacker's own credential in the same namespace: the binding is good, but for what that one holds."""
    async with stranger(tmp_path / "pki", answers({})) as attacker:
        url = f"{attacker.url}/app.git"
        victims = given.recipe_of(given.repository_row(VICTIM, LOGIN))["secret"]
        own = given.recipe_of(given.repository_row(url, {"username": "eve", "password": "own"}))["secret"]
        row = given.with_recipe(given.repository_row(url, LOGIN), secret=victims | {"binding": own["binding"]})
        result = await given.checker().compose_secret(row, None)
    assert (result.secret, result.reason) == (None, "SecretUseRefused")
    assert attacker.requests == []


async def test_login_when_nobody_has_said_what_it_is_for_then_it_is_not_sent_and_nothing_else_is_concluded(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", answers({})) as server:
        row = given.repository_row(f"{server.url}/app.git", LOGIN)
        secret = given.recipe_of(row)["secret"]
        bare = {name: value for name, value in secret.items() if name != "binding"}
        result = await given.checker().compose_secret(given.with_recipe(row, secret=bare), None)
    assert (result.secret, result.reason, result.access) == (None, "SecretUseRefused", None)
    assert server.requests == []


async def test_login_when_the_url_is_spelled_in_another_way_that_is_the_same_to_argo_cd_then_it_is_sent(
    given: Given, tmp_path: Path
) -> None:
    trusting = replace(given, settings=replace(SETTINGS, git_authorities=tmp_path / "pki" / "ca.crt"))
    async with stranger(tmp_path / "pki", answers({})) as server:
        row = trusting.repository_row(f"{server.url}/Team-A/private.git", LOGIN)
        await trusting.checker().compose_secret(
            trusting.with_recipe(row, repository=f"{server.url}/team-a/private"), None
        )
    assert any("Authorization" in request.headers for request in server.requests)


FORGED: dict[str, dict[str, Any]] = {
    "tls-not-verified": {"insecure": True},
    "account-made": {"createServiceAccount": True},
    "more-namespaces": {"namespaces": ["kube-system"]},
    "whole-cluster": {"clusterResources": True},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
async def test_kubeconfig_when_the_row_asks_for_it_on_other_terms_then_its_server_is_not_asked(
    given: Given, tmp_path: Path, forged: dict[str, Any]
) -> None:
    async with stranger(tmp_path / "pki", answers({})) as server:
        row = given.cluster_row(server.url, {"kubeconfig": kubeconfig(server.url)})
        result = await given.checker().compose_secret(given.with_recipe(row, **forged), None)
    assert (result.secret, result.reason) == (None, "SecretUseRefused")
    assert "on other terms" in result.message
    assert server.requests == []


async def test_kubeconfig_when_the_row_names_another_of_its_servers_then_that_is_not_asked(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", answers({})) as other:
        row = given.cluster_row(API_URL, {"kubeconfig": kubeconfig(other.url)})
        forged = {"apiURL": other.url, "server": f"{other.url}?managedEnvironment=e1"}
        result = await given.checker().compose_secret(given.with_recipe(row, **forged), None)
    assert (result.secret, result.reason) == (None, "SecretUseRefused")
    assert "it was given for another URL" in result.message
    assert other.requests == []


async def test_account_when_the_row_of_a_deletion_asks_to_remove_it_on_other_terms_then_no_server_is_asked(
    given: Given, tmp_path: Path
) -> None:
    async with stranger(tmp_path / "pki", answers({})) as server:
        row = given.cluster_row(server.url, {"kubeconfig": kubeconfig(server.url)}, createServiceAccount=True)
        forged: EngineResource = replace(given.with_recipe(row, insecure=True), desired="absent")
        await given.checker().remove_account(forged, None)
    assert server.requests == []
