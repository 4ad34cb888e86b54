"""What a host resolves to, and what of that may be connect_to_api_server to."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from services.agent.credentials.network.resolver import ConnectionProblem, HostResolver, ResolvedHost, Unreachable
from services.common.addresses import AddressPolicy

ANSWERS = {
    "git.example.com": ("git.example.com", "192.0.2.1"),
    "vault.dev": ("vault.dev.svc.cluster.local", "10.96.0.7"),
    "vault.dev.": ("vault.dev", "192.0.2.2"),
    "search.less": ("search.less", "192.0.2.4"),
    "search.less.svc.cluster.local.": ("search.less.svc.cluster.local", "10.96.0.9"),
    "kafka.gitops": ("kafka.gitops.svc.cluster.local", "10.96.0.8"),
    "www.example.com": ("www.example.com.cdn.example.net", "192.0.2.3"),
    "www.example.com.": ("www.example.com.cdn.example.net", "192.0.2.3"),
    "Git.Example.com": ("git.example.com", "192.0.2.1"),
    "git.corp": ("server.corp", "10.1.2.3"),
    "192.0.2.5": ("192.0.2.5", "192.0.2.5"),
}
"""Of a resolver: the name it found and an address; ``vault.dev`` is a Service here and somebody's out there, and so is
``search.less``, where agents have no search list but Argo CD has."""


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> HostResolver:
    def getaddrinfo(host: str, port: int, *, type: int, flags: int) -> list[Any]:  # noqa: A002 - as it is called
        assert flags & socket.AI_CANONNAME
        if host not in ANSWERS:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        canonical, address = ANSWERS[host]
        return [(socket.AF_INET, type, 6, canonical, (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return HostResolver(AddressPolicy(), 5)


@pytest.mark.parametrize("host", ["vault.dev", "kafka.gitops", "search.less"])
async def test_name_when_the_search_list_of_a_pod_completes_it_then_refused(resolver: HostResolver, host: str) -> None:
    with pytest.raises(Unreachable) as refused:
        await resolver.resolve_host(host, 443)
    assert refused.value.problem is ConnectionProblem.ADDRESS


FOUND = {
    "as-it-is": "git.example.com",
    "other-case": "Git.Example.com",
    "alias": "git.corp",
    "cdn": "www.example.com",
    "address": "192.0.2.5",
}


@pytest.mark.parametrize("host", FOUND.values(), ids=FOUND)
async def test_name_when_it_is_complete_then_its_address(resolver: HostResolver, host: str) -> None:
    address = ANSWERS[host][1]
    assert await resolver.resolve_host(host, 443) == ResolvedHost(host, 443, ((socket.AF_INET, address),))


@pytest.mark.parametrize("host", ["argocd-redis", "kubernetes.default.svc"])
async def test_name_when_the_policy_refuses_it_then_not_looked_up(resolver: HostResolver, host: str) -> None:
    with pytest.raises(Unreachable) as refused:
        await resolver.resolve_host(host, 443)
    assert refused.value.problem is ConnectionProblem.ADDRESS


async def test_name_when_nobody_has_it_then_no_such_host(resolver: HostResolver) -> None:
    with pytest.raises(Unreachable) as missing:
        await resolver.resolve_host("nobody.invalid", 443)
    assert missing.value.problem is ConnectionProblem.NAME
