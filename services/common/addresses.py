"""Which network addresses a tenant may make us connect to (against server-side request forgery).

The planner checks the host in a URL (``refusal_of_host``). The agents check every address that a name resolves to
(``refusal``), and connect to exactly the checked address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Self

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (what, tuple(ip_network(network) for network in networks))
    for what, networks in (
        # 127.0.0.1 of an engine's pod is not the tenant's; Linux takes 0.0.0.0 for it.
        ("a loopback address", ("127.0.0.0/8", "::1/128")),
        ("no address of a host", ("0.0.0.0/8", "::/128", "255.255.255.255/32")),
        ("a link-local address", ("169.254.0.0/16", "fe80::/10")),
        ("a multicast address", ("224.0.0.0/4", "ff00::/8")),
        # AWS, Google, Alibaba, Oracle and Azure answer here with credentials of the machine; most others link-local.
        (
            "the address of a cloud's metadata service",
            ("fd00:ec2::/32", "fd20:ce::254/128", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32"),
        ),
        # Where the IPv4 address is in it depends on the network.
        ("an address of a translator of a local network", ("64:ff9b:1::/48",)),
    )
)

_INTERNAL = re.compile(
    r"kubernetes|kubernetes\.default"
    r"|(.+\.)?svc|(.+\.)?cluster\.local"
    r"|metadata|metadata\.google\.internal|metadata\.goog|instance-data(\.ec2\.internal)?"
)
"""Names of the engine's own cluster, or of its cloud's metadata service, whatever they resolve to."""

_LOOPBACK = re.compile(r"(.+\.)?localhost|localhost\.localdomain|ip6-localhost|ip6-loopback")
_NUMERIC = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)")
"""A name whose last label is a number: some resolvers read it as an address."""

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_MAX_NAME = 253
_MAX_QUOTED = 80

_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("::/96"), ip_network("::ffff:0:0:0/96"))
"""NAT64, IPv4-compatible and SIIT: the last 32 bits are an IPv4 address."""

_ISATAP = {0x0000_5EFE, 0x0200_5EFE}
_LOW_32_BITS = 0xFFFF_FFFF


@dataclass(frozen=True)
class AddressPolicy:
    """Refuses addresses that no tenant needs, except those that the operator allows."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a list such as ``127.0.0.0/8, ::1/128``. Raises ValueError that names the first bad item."""
        return cls(tuple(_network(item.strip()) for item in text.split(",") if item.strip()))

    def refusal(self, address: Address) -> str:
        """Why ``address`` may not be connected to; empty if it may."""
        for meant in (address, *_embedded(address)):
            if any(meant in network for network in self.allowed):
                continue
            for what, networks in _REFUSED:
                if any(meant in network for network in networks):
                    return f"{_quoted(str(address))} is {what}, which is not allowed"
        return ""

    def refusal_of_host(self, host: str) -> str:
        """Why the host of a URL (a name, or an address in any spelling) may not be used; empty if it may.

        The addresses of an accepted name must still be checked.
        """
        if not host.isascii():  # full-width digits and other look-alikes, which some resolvers fold and others do not
            return f"{_quoted(host)} is not ASCII; write an international host name in its xn-- form"
        folded = host.lower().removesuffix(".")
        if folded.startswith("[") or ":" in folded:
            return self._refusal_of_ipv6(host, folded)
        if _NUMERIC.fullmatch(folded):
            return self._refusal_of_ipv4(host, folded)
        return _refusal_of_name(host, folded) or self._refusal_of_meaning(host, folded)

    def _refusal_of_ipv6(self, host: str, folded: str) -> str:
        bracketed = folded.startswith("[") and folded.endswith("]")
        literal = folded[1:-1] if bracketed else folded
        try:
            address = IPv6Address(literal)
        except ValueError:
            return f"{_quoted(host)} is not an address"
        return f"{_quoted(host)} has a zone; leave it out" if address.scope_id else self.refusal(address)

    def _refusal_of_ipv4(self, host: str, folded: str) -> str:
        """Refuses all spellings but the one that all resolvers agree on. Some resolvers read octal numbers."""
        try:
            address = IPv4Address(folded)
        except ValueError:
            return f"{_quoted(host)} is not an address; write one as four decimal numbers without leading zeros"
        return self.refusal(address)

    def _refusal_of_meaning(self, host: str, folded: str) -> str:
        if _LOOPBACK.fullmatch(folded):
            return f"{_quoted(host)} is the machine itself" if self.refusal(IPv4Address("127.0.0.1")) else ""
        if _INTERNAL.fullmatch(folded):
            return f"{_quoted(host)} is a name of the platform's own"
        # Every machine completes it with a search list of its own: that of a pod makes it a Service next door.
        return "" if "." in folded else f"{_quoted(host)} has one part only; write the host's name in full"


def _network(item: str) -> Network:
    try:
        return ip_network(item)
    except ValueError as error:
        raise ValueError(f"'{item[:_MAX_QUOTED]}' is not a network such as 10.0.0.0/8 or fd00::/8: {error}") from None


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that packets to an IPv6 address may reach."""
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    low = IPv4Address(int(address) & _LOW_32_BITS)
    is_isatap = (int(address) >> 32) & _LOW_32_BITS in _ISATAP
    if is_isatap or (int(address) > 1 and any(address in network for network in _TRANSLATED)):
        yield low


def _refusal_of_name(host: str, folded: str) -> str:
    if len(folded) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in folded.split(".")):
        return f"{_quoted(host)} is not a host name"
    return ""


def _quoted(host: str) -> str:
    """``host`` for a message: short, and without characters that disturb a log or terminal."""
    return "'" + host[:_MAX_QUOTED].encode("ascii", "backslashreplace").decode().translate(_UNPRINTABLE) + "'"


_UNPRINTABLE = dict.fromkeys((*range(32), 127), "?")
