"""Repositories of deployments, as they are judged before Argo CD is told of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from services.agent.credentials.network import resolver as names
from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable
from services.agent.credentials.repositories import host_check as repository_hosts
from services.common.addresses import AddressPolicy
from tests.unit.agent.credentials.given import SETTINGS, Given

REFUSED = "names a host that cannot be used: the host is at an address that may not be reached from here"


@dataclass
class NameServer:
    """Counts who asks; hosts under ``slow.`` wait until they are let go."""

    asked: Counter[str] = field(default_factory=Counter)
    go: threading.Event = field(default_factory=threading.Event)
    slow_at_once: list[str] = field(default_factory=list)

    def look_up(self, host: str, port: int) -> tuple[names.Host, ...]:
        self.asked[host] += 1
        if host.startswith("slow"):
            self.slow_at_once.append(host)
            self.go.wait(10)
        if host.startswith("completed."):
            raise Unreachable(ConnectionProblem.ADDRESS)
        address = {"169.254.169.254.nip.io": "169.254.169.254", "good.example.com": "192.0.2.1"}.get(host)
        return ((socket.AF_INET, address),) if address else ()


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(names, "_look_up", server.look_up)
    yield server
    server.go.set()


@pytest.fixture
def strict(given: Given) -> Given:
    return replace(given, policy=AddressPolicy())


CASES = {
    "public": ("https://good.example.com/a.git", ""),
    "scp": ("git@good.example.com:a.git", ""),
    "metadata-by-name": ("http://169.254.169.254.nip.io/a.git", REFUSED),
    "metadata-by-ssh": ("git@169.254.169.254.nip.io:a", REFUSED),
    "service-by-search-list": ("http://completed.gitops:8083/a", REFUSED),
    "found-nowhere": ("https://nobody.example.com/a", ""),
    "literal": (
        "https://169.254.169.254/a",
        "names a host that cannot be used: '169.254.169.254' is a link-local address, which is not allowed",
    ),
    "no-url": ("file:///etc/passwd", "must be an https:// or ssh:// URL, or have the form user@host:path"),
}


@pytest.mark.usefixtures("name_server")
@pytest.mark.parametrize(("url", "refusal"), CASES.values(), ids=CASES)
async def test_repository_when_its_host_is_looked_up_then_refused_by_what_it_resolves_to(
    strict: Given, url: str, refusal: str
) -> None:
    assert await strict.checker().refusal_of_repository(url, "w/a") == refusal


async def test_host_when_asked_about_again_then_looked_up_once_a_minute(strict: Given, name_server: NameServer) -> None:
    checker = strict.checker()
    for tenant in ("w/a", "w/b"):
        for path in ("a", "b"):
            assert await checker.refusal_of_repository(f"http://169.254.169.254.nip.io/{path}", tenant) == REFUSED
    assert name_server.asked["169.254.169.254.nip.io"] == 1
    await strict.clock.advance(61)
    await checker.refusal_of_repository("http://169.254.169.254.nip.io/a", "w/a")
    assert name_server.asked["169.254.169.254.nip.io"] == 2


async def test_host_when_many_ask_at_once_then_looked_up_once(strict: Given, name_server: NameServer) -> None:
    turns = replace(SETTINGS, checks_per_tenant=1)
    checker = replace(strict, settings=turns).checker()
    urls = [f"https://good.example.com/{number}" for number in range(20)]
    assert set(await asyncio.gather(*(checker.refusal_of_repository(url, "w/a") for url in urls))) == {""}
    assert name_server.asked["good.example.com"] == 1


async def test_tenant_when_its_name_server_is_slow_then_others_do_not_wait(
    strict: Given, name_server: NameServer
) -> None:
    checker = replace(strict, settings=replace(SETTINGS, checks=3, checks_per_tenant=2)).checker()
    slow = [
        asyncio.create_task(checker.refusal_of_repository(f"https://slow{number}.example.com/a", "w/slow"))
        for number in range(10)
    ]
    async with asyncio.timeout(30):
        assert await checker.refusal_of_repository("http://169.254.169.254.nip.io/a", "w/b") == REFUSED
    assert len(name_server.slow_at_once) <= 2
    name_server.go.set()
    assert await asyncio.gather(*slow) == [""] * 10


async def test_hosts_when_there_are_very_many_then_the_oldest_are_forgotten(
    strict: Given, name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_hosts, "MAX_KEPT", 2)
    checker = strict.checker()
    for host in ("a.example.com", "b.example.com", "c.example.com", "c.example.com", "a.example.com"):
        await checker.refusal_of_repository(f"https://{host}/x", "w/a")
    assert name_server.asked == {"a.example.com": 2, "b.example.com": 1, "c.example.com": 1}
