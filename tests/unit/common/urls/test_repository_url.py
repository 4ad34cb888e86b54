"""Which repositories are accepted, and when two spellings mean the same one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.addresses import AddressPolicy
from services.common.urls.repository_url import MAX_REPOSITORY, normalised, refusal

STRICT = AddressPolicy()


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/foo/bar.git",
        "https://GitHub.com/Foo/Bar",
        "https://h.example:8443/a",
        "https://org@dev.azure.com/org/project/_git/repo",
        "https://h.example/a%20b/_git/c",
        "https://h.example/~user/a",
        "http://git.example.com/a",
        "ssh://git@github.com/foo/bar.git",
        "ssh://git@h.example:2222/a",
        "ssh://h.example/a",
        "git@github.com:foo/bar.git",
        "deploy@h.example:a",
        "git@h.example:~/a",
        "git@h.example:/srv/a.git",
        "https://xn--bcher-kva.example/a",
        "https://git.example.com/".ljust(MAX_REPOSITORY, "a"),
    ],
)
def test_repository_when_it_is_an_ordinary_url_then_it_is_accepted(url: str) -> None:
    assert refusal(url, STRICT, with_credentials=False) == ""


@pytest.mark.parametrize(
    ("url", "part"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("https://git.example.com/".ljust(MAX_REPOSITORY + 1, "a"), "longer than 512", id="too-long"),
        pytest.param("file:///etc", "'file' is not supported", id="file"),
        pytest.param("FILE://h.example/a", "is not supported", id="file-upper-case"),
        pytest.param("git://h.example/a", "'git' is not supported", id="git"),
        pytest.param("ftp://h.example/a", "is not supported", id="ftp"),
        pytest.param("git+ssh://h.example/a", "is not supported", id="git-ssh"),
        pytest.param("ext::sh -c id", "printable ASCII without spaces", id="ext-with-spaces"),
        pytest.param("ext::sh$IFS-c", "transport helper", id="ext"),
        pytest.param("EXT::x", "transport helper", id="ext-upper-case"),
        pytest.param("fd::17", "transport helper", id="fd"),
        pytest.param("https::https://h.example/a", "transport helper", id="https-helper"),
        pytest.param("::x", "transport helper", id="nameless-helper"),
        pytest.param("/srv/git/a", "must be an https", id="local-path"),
        pytest.param("../a", "must be an https", id="relative-path"),
        pytest.param("C:\\a", "must be an https", id="windows-path"),
        pytest.param("h:a", "must be an https", id="scp-without-user"),
        pytest.param("oci://h.example/chart", "is not supported", id="oci"),
        pytest.param("https:/h.example/a", "must be an https", id="one-slash"),
        pytest.param("https:h/a", "must be an https", id="no-slash"),
        pytest.param("https:///a", "host that cannot be used", id="no-host"),
        pytest.param("--upload-pack=x", "begins with '-'", id="option"),
        pytest.param("ssh://-oProxyCommand=x/a", "host that cannot be used", id="option-as-host"),
        pytest.param("ssh://-oProxyCommand=x@h.example/a", "begins with '-'", id="option-as-user"),
        pytest.param("-oProxyCommand=x@h.example:a", "begins with '-'", id="option-as-scp-user"),
        pytest.param("git@-oProxyCommand=x:a", "host that cannot be used", id="option-as-scp-host"),
        pytest.param("git@h.example:-x", "begins with '-'", id="option-as-scp-path"),
        pytest.param("ssh://h.example/-x", "begins with '-'", id="option-as-path"),
        pytest.param("ssh://h.example//-x", "begins with '-'", id="option-as-path-after-two-slashes"),
        pytest.param("https://u:p@h.example/a", "must not carry a password", id="password"),
        pytest.param("https://u:@h.example/a", "must not carry a password", id="empty-password"),
        pytest.param("ssh://u:p@h.example/a", "must not carry a password", id="ssh-password"),
        pytest.param("https://a@b@h.example/a", "must be an https", id="two-users"),
        pytest.param("https://u%3ap@h.example/a", "has a user name", id="hidden-password"),
        pytest.param("https://@h.example/a", "has a user name", id="empty-user"),
        pytest.param("http://u@h.example/a", "user name with http", id="user-over-http"),
        pytest.param("https://h.example/a\n", "printable ASCII", id="line-feed"),
        pytest.param("https://h.example/\0a", "printable ASCII", id="nul"),
        pytest.param(" https://h.example/a", "printable ASCII", id="leading-space"),
        pytest.param("https://h.example/a\u200b", "printable ASCII", id="zero-width-space"),
        pytest.param("https://g\u0456thub.com/a", "xn-- form", id="cyrillic-look-alike"),
        pytest.param("https://h.example/\u00fc", "printable ASCII", id="path-not-ascii"),
        pytest.param("https://h.example\u2044a/b", "printable ASCII", id="fraction-slash"),
        pytest.param("https://h.example/a#main", "fragment", id="fragment"),
        pytest.param("https://h.example#@good.example/a", "fragment", id="fragment-as-host"),
        pytest.param("https://good.example\\@h.example/a", "must be an https", id="backslash-in-authority"),
        pytest.param("https://h.example/a\\b", "has a path", id="backslash-in-path"),
        pytest.param("https://h.example/a?b", "must name one repository", id="query"),
        pytest.param("https://h.example/*", "must name one repository", id="star"),
        pytest.param("!https://h.example/a", "must name one repository", id="denial"),
        pytest.param("https://h.example/{a,b}", "must name one repository", id="alternatives"),
        pytest.param("https://[2001:db8::1]/a", "by an IPv6 address", id="ipv6-is-a-pattern-to-argo-cd"),
        pytest.param("https://[2001:db8::1]:8443/a", "by an IPv6 address", id="ipv6-with-port"),
        pytest.param("ssh://git@[::ffff:192.0.2.1]/a", "by an IPv6 address", id="ipv6-over-ssh"),
        pytest.param("git@[fe80::1%eth0]:a", "by an IPv6 address", id="ipv6-in-scp-form"),
        pytest.param("https://[ab]/a", "must name one repository", id="character-class-as-host"),
        pytest.param("https://h.example/[2001:db8::1]", "must name one repository", id="address-in-path"),
        pytest.param("https://h.example/a/../b", "'.' or '..'", id="dot-dot"),
        pytest.param("https://h.example/./a", "'.' or '..'", id="dot"),
        pytest.param("git@h.example:../a", "'.' or '..'", id="scp-dot-dot"),
        pytest.param("https://h.example/%2e%2e/a", "has a '%'", id="escaped-dot-dot"),
        pytest.param("https://h.example/a%2fb", "has a '%'", id="escaped-slash"),
        pytest.param("https://h.example/a%00", "has a '%'", id="escaped-nul"),
        pytest.param("https://h.example/a%0a", "has a '%'", id="escaped-line-feed"),
        pytest.param("https://h.example/a%25%32e", "has a '%'", id="escaped-twice"),
        pytest.param("https://h.example/a%zz", "has a '%'", id="no-escape"),
        pytest.param("https://h.example/a%2", "has a '%'", id="half-an-escape"),
        pytest.param("https://h.example/a@b", "has a path", id="at-in-path"),
        pytest.param("https://h.example/a`id`", "has a path", id="shell"),
        pytest.param("https://h.example/a;b", "has a path", id="semicolon"),
        pytest.param("https://h.example", "names a host, but no repository", id="host-only"),
        pytest.param("https://h.example///", "names a host, but no repository", id="slashes-only"),
        pytest.param("git@h.example:", "names a host, but no repository", id="scp-host-only"),
        pytest.param("https://h.example/a.git.git", ".git twice", id="git-twice"),
        pytest.param("https://h.example:0/a", "port", id="port-0"),
        pytest.param("https://h.example:65536/a", "port", id="port-out-of-range"),
        pytest.param("https://h.example:/a", "port", id="port-empty"),
        pytest.param("https://h.example:0443/a", "port", id="port-padded"),
        pytest.param("https://h.example:44x/a", "port", id="port-not-a-number"),
        pytest.param("https://h.example:1:2/a", "must be an https", id="two-ports"),
        pytest.param("https://127.0.0.1/a", "loopback", id="loopback"),
        pytest.param("https://2130706433/a", "not an address", id="loopback-decimal"),
        pytest.param("git@localhost:a", "the machine itself", id="localhost"),
        pytest.param("https://169.254.169.254/latest", "link-local", id="metadata"),
        pytest.param("ssh://git@argocd-redis.argocd.svc/a", "platform's own", id="service"),
    ],
)
def test_repository_when_it_is_unusual_or_hostile_then_the_problem_is_named(url: str, part: str) -> None:
    message = refusal(url, STRICT, with_credentials=False)
    assert part in message
    assert message.isprintable()
    assert len(message) < 500


@pytest.mark.parametrize(
    ("url", "part"),
    [("http://h.example/a", "sent in clear"), ("https://u@h.example/a", "user name with https")],
)
def test_repository_when_credentials_will_be_sent_then_more_is_refused(url: str, part: str) -> None:
    assert part in refusal(url, STRICT, with_credentials=True)


@pytest.mark.parametrize("url", ["https://h.example/a", "ssh://git@h.example/a", "git@h.example:a"])
def test_repository_when_credentials_will_be_sent_safely_then_it_is_accepted(url: str) -> None:
    assert refusal(url, STRICT, with_credentials=True) == ""


def test_repository_when_the_operator_allows_loopback_then_a_local_one_is_accepted() -> None:
    policy = AddressPolicy.parse("127.0.0.0/8")
    assert refusal("http://127.0.0.1:3000/team/app.git", policy, with_credentials=False) == ""


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("https://GitHub.com/Foo/Bar.git", "https://github.com/foo/bar"),
        ("  https://github.com/foo/bar ", "https://github.com/foo/bar"),
        ("git@github.com:Foo/Bar.git", "git@github.com/foo/bar"),
        ("ssh://git@github.com/foo/bar", "git@github.com/foo/bar"),
        ("SSH://Git@github.com/foo/bar.GIT", "git@github.com/foo/bar"),
        ("deploy@h.example:a", "deploy@h.example/a"),
        ("ssh://git@h.example:2222/a", "ssh://git@h.example:2222/a"),
        ("git@h.example:a:b", "ssh://git@h.example/a:b"),
        ("git@h.example:2222/a", "git@h.example/2222/a"),
        ("https://h.example:443/a", "https://h.example:443/a"),
        ("https://h.example/a.git.git", "https://h.example/a.git"),
    ],
)
def test_repository_when_normalised_then_it_is_as_documented(repository: str, expected: str) -> None:
    assert normalised(repository) == expected


def argo_cd(repository: str) -> str:
    """What Argo CD makes of a repository (NormalizeGitURL); on what we accept Go's url.Parse changes nothing."""
    url = repository.strip().lower()
    if re.fullmatch(r"(ssh://)?([^/:]*?)@[^@]+", url) and not url.startswith("ssh://"):
        url = "ssh://" + url.replace(":", "/", 1)
    return url.removesuffix(".git").removeprefix("ssh://")


SPELLINGS = st.builds(
    "{}{}{}{}{}{}".format,
    st.sampled_from(["https://", "http://", "ssh://", "SSH://", ""]),
    st.sampled_from(["", "git@", "u@", "Git@"]),
    st.sampled_from(["h.io", "H.io", "git.example.com"]),
    st.sampled_from(["/", ":22/", ":443/", ":", ":/", "/22/"]),
    st.text("aA.-_~:/%2", max_size=6),
    st.sampled_from(["", ".git", ".GIT", "/", ".git/"]),
)
ACCEPTED = SPELLINGS.filter(lambda url: not refusal(url, STRICT, with_credentials=False))


@given(ACCEPTED, ACCEPTED)
def test_repositories_when_two_are_normalised_then_they_are_equal_exactly_if_they_are_to_argo_cd(
    one: str, other: str
) -> None:
    assert (normalised(one) == normalised(other)) == (argo_cd(one) == argo_cd(other))


@given(ACCEPTED)
def test_repository_when_argo_cd_normalises_our_form_then_the_application_s_own_is_matched(repository: str) -> None:
    assert argo_cd(normalised(repository)) == argo_cd(repository)


@given(st.text(max_size=60) | SPELLINGS)
def test_repository_when_it_is_anything_then_there_is_an_answer(repository: str) -> None:
    assert refusal(repository, STRICT, with_credentials=True).isprintable()
