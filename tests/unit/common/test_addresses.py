"""Which addresses and hosts may be reached, in every spelling."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.addresses import AddressPolicy

STRICT = AddressPolicy()
LOCAL = AddressPolicy.parse("127.0.0.0/8, ::1/128")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",  # noqa: S104 - not bound to
        "0.1.2.3",
        "255.255.255.255",
        "169.254.169.254",
        "169.254.170.2",
        "224.0.0.1",
        "239.255.255.255",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "ff02::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        pytest.param("::ffff:127.0.0.1", id="mapped-loopback"),
        pytest.param("::ffff:169.254.169.254", id="mapped-metadata"),
        pytest.param("::127.0.0.1", id="compatible-loopback"),
        pytest.param("::ffff:0:127.0.0.1", id="siit-loopback"),
        pytest.param("2002:7f00:1::", id="6to4-loopback"),
        pytest.param("2002:a9fe:a9fe::1", id="6to4-metadata"),
        pytest.param("64:ff9b::7f00:1", id="nat64-loopback"),
        pytest.param("64:ff9b::a9fe:a9fe", id="nat64-metadata"),
        pytest.param("64:ff9b:1::1", id="local-nat64"),
        pytest.param("2001:0:7f00:1::", id="teredo-server-loopback"),
        pytest.param("2001:0:4136:e378:8000:63bf:80ff:fffe", id="teredo-client-loopback"),
        pytest.param("fd00::5efe:7f00:1", id="isatap-loopback"),
    ],
)
def test_address_when_no_tenant_has_a_reason_to_reach_it_then_it_is_refused_as_address_and_as_host(
    address: str,
) -> None:
    assert STRICT.refusal(ip_address(address))
    assert STRICT.refusal_of_host(address)
    assert STRICT.refusal_of_host(f"[{address}]")


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "2606:4700::1111",
        "fd12:3456::1",
        "64:ff9b::808:808",
    ],
)
def test_address_when_it_is_public_or_routed_privately_then_it_is_fine(address: str) -> None:
    assert STRICT.refusal(ip_address(address)) == ""
    assert STRICT.refusal_of_host(address) == ""


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("2130706433", id="decimal"),
        pytest.param("017700000001", id="octal"),
        pytest.param("0x7f000001", id="hexadecimal"),
        pytest.param("0X7F000001", id="hexadecimal-upper-case"),
        pytest.param("0x7f.0.0.1", id="hexadecimal-part"),
        pytest.param("0177.0.0.1", id="octal-part"),
        pytest.param("127.1", id="two-parts"),
        pytest.param("127.0.1", id="three-parts"),
        pytest.param("127.0.0.1.", id="trailing-dot"),
        pytest.param("127.000.000.001", id="padded"),
        pytest.param("0127.0.0.1", id="octal-to-one-decimal-to-another"),
        pytest.param("0", id="zero"),
        pytest.param("0x", id="hexadecimal-of-nothing"),
        pytest.param("127.0.0.1.1", id="five-parts"),
        pytest.param("999.1.1.1", id="out-of-range"),
        pytest.param("134744072", id="public-but-decimal"),
        pytest.param("\uff11\uff12\uff17.0.0.1", id="full-width-digits"),
        pytest.param("127\u30020\u30020\u30021", id="ideographic-full-stops"),
        pytest.param("\u2460\u2461\u2466.0.0.1", id="circled-digits"),
        pytest.param("\u0660.0.0.0", id="arabic-digits"),
        pytest.param("[0:0:0:0:0:0:0:1]", id="ipv6-long"),
        pytest.param("[0000:0000::0001]", id="ipv6-padded"),
        pytest.param("[::FFFF:7F00:1]", id="ipv6-upper-case"),
        pytest.param("[::ffff:0x7f.1]", id="ipv6-with-odd-ipv4"),
        pytest.param("[::1", id="bracket-not-closed"),
        pytest.param("::1]", id="bracket-not-opened"),
        pytest.param("[[::1]]", id="two-brackets"),
        pytest.param("[fe80::1%25eth0]", id="zone"),
        pytest.param("[127.0.0.1]", id="ipv4-in-brackets"),
        pytest.param("%31%32%37.0.0.1", id="percent-escapes"),
        pytest.param("localhost", id="localhost"),
        pytest.param("LOCALHOST", id="localhost-upper-case"),
        pytest.param("localhost.", id="localhost-trailing-dot"),
        pytest.param("LocalHost.LocalDomain", id="localhost-localdomain"),
        pytest.param("a.b.localhost", id="below-localhost"),
        pytest.param("\u24dbocalhost", id="localhost-circled"),
        pytest.param("ip6-loopback", id="ip6-loopback"),
        pytest.param("kubernetes", id="kubernetes"),
        pytest.param("kubernetes.default", id="kubernetes-default"),
        pytest.param("kubernetes.default.svc", id="service"),
        pytest.param("redis.argocd.SVC.Cluster.Local.", id="service-in-full"),
        pytest.param("svc.cluster.local", id="services"),
        pytest.param("metadata.google.internal", id="google-metadata"),
        pytest.param("metadata", id="metadata"),
        pytest.param("rancher-metadata", id="rancher-metadata"),
        pytest.param("argocd-redis", id="service-of-the-same-namespace"),
        pytest.param("git", id="one-label"),
        pytest.param("Git.", id="one-label-trailing-dot"),
        pytest.param("", id="empty"),
        pytest.param(".", id="dot"),
        pytest.param("a..b", id="empty-label"),
        pytest.param("-oProxyCommand=x", id="option"),
        pytest.param("-h.example.com", id="label-begins-with-dash"),
        pytest.param("a b", id="space"),
        pytest.param("a\0b", id="nul"),
        pytest.param("a\nb", id="line-feed"),
        pytest.param("a/b", id="slash"),
        pytest.param("a@b", id="at"),
        pytest.param("b\u00fccher.example", id="not-ascii"),
        pytest.param("g\u0456thub.com", id="cyrillic-look-alike"),
        pytest.param("a" * 64 + ".com", id="label-too-long"),
        pytest.param("a." * 130 + "com", id="name-too-long"),
    ],
)
def test_host_when_it_is_hidden_internal_or_no_host_then_it_is_refused_in_one_printable_line(host: str) -> None:
    message = STRICT.refusal_of_host(host)
    assert message
    assert len(message) < 500
    assert message.isascii()
    assert message.isprintable()


@pytest.mark.parametrize(
    "host",
    [
        "github.com",
        "GitHub.com",
        "github.com.",
        "xn--bcher-kva.example",
        "git.corp",
        "svc.example.com",
        "my_host.example",
        "1and1.com",
        "127.0.0.1.nip.io",
        "localhost.example.com",
    ],
)
def test_host_when_it_is_a_name_then_it_is_left_to_the_check_of_what_it_resolves_to(host: str) -> None:
    assert STRICT.refusal_of_host(host) == ""


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.1", "[::1]", "localhost", "git.localhost", "[::ffff:127.0.0.1]"]
)
def test_host_when_the_operator_allows_its_network_then_it_is_fine(host: str) -> None:
    assert LOCAL.refusal_of_host(host) == ""


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.7", "kubernetes.default.svc", "2130706433", "[fe80::1]"])
def test_host_when_the_operator_allows_another_network_then_it_is_refused_still(host: str) -> None:
    assert LOCAL.refusal_of_host(host)


@pytest.mark.parametrize("text", ["127.0.0.1/8", "nonsense", "10.0.0.0/33", "10.0.0.0/8; ::1"])
def test_policy_when_an_item_is_no_network_then_it_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a network such as") as refused:
        AddressPolicy.parse(f"::1/128, {text}")
    assert text[:9] in str(refused.value)


def test_policy_when_nothing_is_listed_then_nothing_is_allowed() -> None:
    assert AddressPolicy.parse("") == AddressPolicy.parse(" , ") == STRICT


@given(st.ip_addresses(v=4, network="127.0.0.0/8"))
def test_loopback_when_spelled_in_any_way_then_it_is_refused(address: IPv4Address) -> None:
    a, b, c, d = address.packed
    number = int(address)
    for spelling in (
        str(address),
        f"{number}",
        f"{number:#x}",
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a:#x}.{b:#o}.{c}.{d}".replace("0o", "0"),
        f"[::ffff:{address}]",
        f"[::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]",
        f"[64:ff9b::{address}]",
    ):
        assert STRICT.refusal_of_host(spelling), spelling


@given(st.ip_addresses(v=6))
def test_ipv6_when_written_long_or_short_then_the_answer_is_the_same(address: IPv6Address) -> None:
    answers = {bool(STRICT.refusal_of_host(f"[{text}]")) for text in (str(address), address.exploded.upper())}
    assert answers == {bool(STRICT.refusal(address))}


@given(st.text(max_size=50))
def test_host_when_it_is_anything_then_there_is_an_answer(host: str) -> None:
    message = STRICT.refusal_of_host(host)
    assert message.isprintable()
    assert not message.startswith(" ")
