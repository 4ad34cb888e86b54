"""What strangers send is read so that the event loop, on which an agent's membership of its group depends, goes on."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from services.agent.credentials.check_result import CheckFailed
from services.agent.credentials.clusters import cluster_client, rights, strict_yaml
from services.agent.credentials.repositories.private_key import private_key
from tests.unit.agent.credentials.given import Given, answers, kubeconfig, stranger
from tests.unit.agent.credentials.hostile_keys import E, nested, openssh_rsa, rsa_pem

MUCH_LESS_THAN_A_SESSION = 1.0
"""Seconds of CPU; sessions end after six, and testing the primes of the keys below takes ten and more."""

ORDINARY = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
NUMBERS = ORDINARY.pyca_key.private_numbers()  # type: ignore[union-attr]
P, Q, D = NUMBERS.p, NUMBERS.q, NUMBERS.d
MERSENNE = {bits: 2**bits - 1 for bits in (3217, 4253, 4423)}
NOT_ACCEPTED = "keys of type ssh-rsa or of this size are not accepted"
UNREADABLE = "the field sshPrivateKey cannot be read"

HOSTILE_KEYS = {
    "large-mersenne-primes": (rsa_pem(MERSENNE[3217], MERSENNE[4253]), NOT_ACCEPTED),
    "larger-mersenne-primes": (rsa_pem(MERSENNE[4423], MERSENNE[4253]), NOT_ACCEPTED),
    "unlike-primes": (rsa_pem(2**521 - 1, 2**2203 - 1), NOT_ACCEPTED),
    "large-exponent": (rsa_pem(P, Q, e=E + 2**100), NOT_ACCEPTED),
    "powers-of-small-primes": (rsa_pem(3**1261, 5**861), UNREADABLE),
    "modulus-of-others": (rsa_pem(P, Q, n=P * Q + 2), UNREADABLE),
    "exponent-of-another": (rsa_pem(P, Q, dp=5), UNREADABLE),
    "coefficient-of-another": (rsa_pem(P, Q, i=5), UNREADABLE),
    "zeroes": (rsa_pem(P, Q, n=0, dp=0, dq=0), UNREADABLE),
    "division-by-zero": (openssh_rsa(P * Q, E, D, 1, 1, Q), UNREADABLE),
    "nested-without-end": (nested(2500), UNREADABLE),
    "dsa": (asyncssh.generate_private_key("ssh-dss").export_private_key("pkcs1-pem").decode(), "ssh-dss"),
}


@pytest.mark.parametrize(("text", "why"), HOSTILE_KEYS.values(), ids=HOSTILE_KEYS)
def test_private_key_when_it_would_cost_or_hang_then_refused(text: str, why: str) -> None:
    with pytest.raises(CheckFailed) as refused:
        private_key(text)
    assert why in refused.value.message


ORDINARY_KEYS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "rsa-2048": ("ssh-rsa", {"key_size": 2048}, "pkcs1-pem"),
    "rsa-3072-pkcs8": ("ssh-rsa", {"key_size": 3072}, "pkcs8-pem"),
    "rsa-4096-openssh": ("ssh-rsa", {"key_size": 4096}, "openssh"),
    "ed25519": ("ssh-ed25519", {}, "openssh"),
    "ed448": ("ssh-ed448", {}, "pkcs8-pem"),
    "ecdsa": ("ecdsa-sha2-nistp521", {}, "pkcs1-pem"),
}


@pytest.mark.parametrize(("algorithm", "size", "form"), ORDINARY_KEYS.values(), ids=ORDINARY_KEYS)
def test_private_key_when_ordinary_then_it_is_the_one_that_was_written(
    algorithm: str, size: dict[str, Any], form: Any
) -> None:
    key = asyncssh.generate_private_key(algorithm, **size)
    assert private_key(key.export_private_key(form).decode()).public_data == key.public_data


@asynccontextmanager
async def lag() -> AsyncIterator[Callable[[], float]]:
    """Tells how much this process has computed at most before the loop came round. What others compute is no lag."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            worst, last = max(worst, time.process_time() - last), time.process_time()

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield lambda: worst
    finally:
        watching.cancel()


async def test_agent_when_many_hostile_keys_are_tried_then_its_loop_goes_on(given: Given) -> None:
    checker = given.checker()
    login = {"sshPrivateKey": HOSTILE_KEYS["larger-mersenne-primes"][0]}
    rows = [given.repository_row(f"git@git.invalid:{number}", login) for number in range(10)]
    async with lag() as worst:
        composed = await asyncio.gather(*(checker.compose_secret(row, None) for row in rows))
        assert {each.reason for each in composed} == {"InvalidCredentials"}
        assert worst() < MUCH_LESS_THAN_A_SESSION


def off_loop(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """The threads in which a function is called."""
    threads: list[int] = []
    original = getattr(module, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.get_ident())
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, called)
    return threads


async def test_kubeconfig_when_many_environments_name_it_then_read_once_and_not_on_the_loop(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = off_loop(monkeypatch, strict_yaml, "parse")
    values = {"kubeconfig": kubeconfig("https://nobody.invalid")}
    rows = [given.cluster_row("https://nobody.invalid", values, uid=f"e{number}") for number in range(3)]
    sealed = given.recipe_of(rows[0])["secret"]
    checker = given.checker()
    for row in (given.with_recipe(each, secret=sealed) for each in rows):
        assert (await checker.compose_secret(row, None)).reason == "UnableToCreateClient"
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_kubeconfig_when_it_is_hostile_then_read_once_too(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = off_loop(monkeypatch, strict_yaml, "parse")
    row = given.cluster_row("https://nobody.invalid", {"kubeconfig": "a: [" + "1," * 9000 + "1"})
    checker = given.checker()
    told = [await checker.compose_secret(row, None) for _ in range(3)]
    assert {each.reason for each in told} == {"UnableToParseKubeconfigData"}
    assert len(threads) == 1


async def test_kubeconfig_when_the_secret_changes_then_read_again(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = off_loop(monkeypatch, strict_yaml, "parse")
    checker = given.checker()
    for token in ("one", "two"):
        values = {"kubeconfig": kubeconfig("https://nobody.invalid", token=token)}
        await checker.compose_secret(given.cluster_row("https://nobody.invalid", values), None)
    assert len(threads) == 2


async def test_discovery_when_it_is_long_then_not_read_on_the_loop(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    threads = off_loop(monkeypatch, rights, "namespaced_resources")
    await installed(given, tmp_path, 1000)
    assert threads
    assert threading.get_ident() not in threads


async def test_discovery_when_it_is_too_long_then_the_answer_is_of_no_use(given: Given, tmp_path: Path) -> None:
    composed = await installed(given, tmp_path, 20_000)
    assert (composed.secret, composed.reason) == (None, "UnableToValidateClusterCredentials")


async def installed(given: Given, folder: Path, resources: int) -> Any:
    """What comes of an environment whose cluster says it has so many resources."""
    listed = [{"resource": f"r{number}", "scope": "Namespaced"} for number in range(resources)]
    group = {"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": listed}]}
    discovery = {"kind": "APIGroupDiscoveryList", "items": [group]}
    async with stranger(folder / "pki", answers(discovery)) as server:
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority)}
        return await given.checker().compose_secret(
            given.cluster_row(server.url, values, createServiceAccount=True), None
        )


@pytest.mark.parametrize("insecure", [True, False])
def test_handshake_when_offered_then_no_server_chooses_the_numbers_that_we_reckon_with(insecure: bool) -> None:
    offered = [cipher["name"] for cipher in cluster_client.trust(None, insecure=insecure).get_ciphers()]
    assert "ECDHE-ECDSA-AES256-GCM-SHA384" in offered
    assert [name for name in offered if name.startswith(("DHE", "ADH", "EDH"))] == []


async def test_authorities_when_a_kubeconfig_brings_many_then_not_read_on_the_loop_and_only_once(
    given: Given, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = off_loop(monkeypatch, ssl, "create_default_context")
    cluster_client.trust.cache_clear()
    namespaces = {"kind": "NamespaceList", "items": []}
    async with stranger(tmp_path / "pki", answers(namespaces)) as server:
        made.clear()
        values = {"kubeconfig": kubeconfig(server.url, authority=server.authority * 20)}
        checker = given.checker()
        for _ in range(3):
            composed = await checker.compose_secret(given.cluster_row(server.url, values), None)
            assert composed.reason == "Succeeded"
    assert len(made) == 1
    assert threading.get_ident() not in made
