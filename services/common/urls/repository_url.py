"""Which repositories may be named, and when two spellings mean the same one.

What is accepted is deliberately plain: on this alphabet Argo CD's own normalisation (lower case, scp form to ssh, one
``.git`` dropped, Go's ``url.Parse`` and back) has no surprises, so ours is equal exactly when Argo CD's is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from services.common.addresses import AddressPolicy
from services.common.urls.web_address import Parts, port_problem, quoted, split_url

MAX_REPOSITORY = 512
"""Characters of a repository's URL: an AppProject, one object, lists all of a tenant."""

ASCII_MESSAGE = "must be printable ASCII without spaces; write an international host name in its xn-- form"
PASSWORD_MESSAGE = "must not carry a password; put credentials in a Secret"  # noqa: S105 - a message
PATTERN = "must name one repository: it cannot begin with '!' or contain '*', '?', '[' or '{'"
IPV6 = "must not name its host by an IPv6 address: its brackets would be a pattern; use the host's name"
EMPTY = "is empty; write the https or ssh URL of a repository"
OPTION = "must not have a part that begins with '-'; git would read it as an option"
TRANSPORT_HELPER = "must not use a transport helper ('name::address'); write the https or ssh URL of a repository"
NO_URL = "must be an https:// or ssh:// URL, or have the form user@host:path"
CLEARTEXT = "must use https or ssh: over http credentials would be sent in clear"
USER_OVER_HTTP = "must not carry a user name with http; use https or ssh"
USER_WITH_CREDENTIALS = "must not carry a user name with https; put credentials in the Secret"
BAD_USER = "has a user name with characters other than letters, digits, '.', '_', '~', '+' and '-'; correct it"
FRAGMENT = "must not have a fragment (#); name a branch or commit in targetRevision"
NO_PATH = "names a host, but no repository on it; append the repository's path"
BAD_PATH = "has a path with characters other than letters, digits and '.', '_', '~', '+', '%', ':', ',', '=', '-'"
DOT_SEGMENT = "must not have '.' or '..' as a part of its path; write the path without them"
BAD_ESCAPE = "has a '%' in its path that is no escape or stands for '.', '/', '\\', '%' or a control character"
TOO_LONG = f"must not be longer than {MAX_REPOSITORY} characters"
TWICE_GIT = "must not end with .git twice; leave one out"

_PATTERN_CHARACTERS = frozenset("*?[{")
_IPV6_HOST = re.compile(
    r"([A-Za-z0-9+.-]*://)?([^@/?#]*@)?\[(?=[0-9A-Fa-f.]*:)[0-9A-Fa-f:.]+(%[^]/?#@]*)?\]([:/?#].*)?"
)
_PRINTABLE = re.compile(r"[!-~]*")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_SCP = re.compile(r"(?P<user>[^@:/]*)@(?P<host>[^@:/]*):(?P<path>.*)")
_USER = re.compile(r"[A-Za-z0-9._~+][A-Za-z0-9._~+-]*")
_PATH = re.compile(r"[A-Za-z0-9._~+%:,=/-]*")
_ESCAPE = re.compile(r"%(?P<hex>[0-9A-Fa-f]{2})?")
_NOT_TO_BE_ESCAPED = frozenset(b"./\\%\x7f" + bytes(range(0x20)))
_SSH = re.compile(r"(ssh://)?[^/:]*@[^@]+")
"""What Argo CD takes for a URL of ssh."""


def refusal(url: str, addresses: AddressPolicy, *, with_credentials: bool) -> str:
    """What is wrong with ``url`` and how to mend it, to follow the field's name; empty if it is fine.

    Args:
        url: as written.
        addresses: which hosts may be reached.
        with_credentials: a Secret will be sent to it.
    """
    return next(_problems(url, addresses, with_credentials=with_credentials), "")


def normalised(repository: str) -> str:
    """The form in which an AppProject lists a repository; equal for two spellings if Argo CD takes them for the same.

    Argo CD normalises this form again, so it must survive that: a colon left in an ssh URL would be taken for the one
    of the scp form, unless the scheme stays.
    """
    url = repository.strip().lower()
    is_ssh = url.startswith("ssh://")
    if _SSH.fullmatch(url) and not is_ssh:
        url, is_ssh = url.replace(":", "/", 1), True
    bare = url.removesuffix(".git").removeprefix("ssh://")
    return f"ssh://{bare}" if is_ssh and ":" in bare else bare


def parts_of(url: str) -> Parts | None:
    """The parts of an https, http or ssh URL, also of one in scp form; None if it is neither."""
    parts = split_url(url)
    if parts is not None:
        return parts if parts.scheme in {"https", "http", "ssh"} else None
    scp = _SCP.fullmatch(url)
    if scp is None:
        return None
    # In the scp form a path is relative to the user's home; what matters here is that it is a path.
    return Parts("ssh", scp["user"], None, scp["host"], None, "/" + scp["path"])


def _problems(url: str, addresses: AddressPolicy, *, with_credentials: bool) -> Iterator[str]:
    yield from _problems_of_text(url)
    parts = parts_of(url)
    if parts is None:
        yield _no_url(url)
        return
    yield from _problems_of_access(parts, with_credentials=with_credentials)
    host = addresses.refusal_of_host(parts.host)
    if host:
        yield f"names a host that cannot be used: {host}"
    yield from filter(None, [port_problem(parts.port)])
    yield from _problems_of_path(parts.rest)


def _problems_of_text(url: str) -> Iterator[str]:
    if not url:
        yield EMPTY
    if len(url) > MAX_REPOSITORY:
        yield TOO_LONG
    if not _PRINTABLE.fullmatch(url):
        yield ASCII_MESSAGE
    if _IPV6_HOST.fullmatch(url):
        yield IPV6
    # An AppProject's repositories are patterns: one from a user could allow or deny more than that repository.
    if url.startswith("!") or _PATTERN_CHARACTERS & set(url):
        yield PATTERN
    if url.startswith("-"):
        yield OPTION
    if _HELPER.match(url):
        yield TRANSPORT_HELPER


def _no_url(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    return f"{NO_URL}; {quoted(scheme)} is not supported" if separator else NO_URL


def _problems_of_access(parts: Parts, *, with_credentials: bool) -> Iterator[str]:
    if parts.scheme == "http" and with_credentials:
        yield CLEARTEXT
    if parts.password is not None:
        yield PASSWORD_MESSAGE
    if parts.user is None:
        return
    if parts.scheme == "http":
        yield USER_OVER_HTTP
    if parts.scheme == "https" and with_credentials:
        yield USER_WITH_CREDENTIALS
    if parts.user.startswith("-"):
        yield OPTION
    if not _USER.fullmatch(parts.user):
        yield BAD_USER


def _problems_of_path(rest: str) -> Iterator[str]:
    path = rest.lstrip("/")
    if "#" in rest:
        yield FRAGMENT
    if not path:
        yield NO_PATH
    if path.startswith("-"):
        yield OPTION
    if not _PATH.fullmatch(rest):
        yield BAD_PATH
    if {".", ".."} & set(path.split("/")):
        yield DOT_SEGMENT
    if any(_is_bad_escape(escape["hex"]) for escape in _ESCAPE.finditer(path)):
        yield BAD_ESCAPE
    if path.lower().endswith(".git.git"):
        yield TWICE_GIT


def _is_bad_escape(hexadecimal: str | None) -> bool:
    return hexadecimal is None or unquote_to_bytes(f"%{hexadecimal}")[0] in _NOT_TO_BE_ESCAPED
