"""Repository URLs as git and Argo CD read them: https, ssh:// and user@host:path. Every other transport is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.agent.credentials.endpoint import Endpoint, host_of, parse_https, path_of, port_of, split, user_of

SSH_PORT = 22
DEFAULT_USER = "git"

_SCP = re.compile(r"((?P<user>[A-Za-z0-9._-]{1,64})@)?(?P<host>[^/:@]+):(?P<path>[^:].*)", re.ASCII)
_UNQUOTABLE = re.compile(r"['!\\]")


@dataclass(frozen=True, slots=True)
class HttpsUrl:
    """A repository on an https server."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class SshUrl:
    """A repository on an ssh server."""

    user: str
    host: str
    port: int
    path: str
    """As git-upload-pack is given it; free of quotes."""


def parse_repository(url: str) -> HttpsUrl | SshUrl:
    """Take ``url`` apart. Raises ValueError that says why it is not accepted."""
    scheme, found, _ = url.partition("://")
    if not found and "::" not in url:
        return _scp(url)
    if scheme.lower() == "https":
        return _https(url)
    if scheme.lower() == "ssh":
        return _ssh(url)
    raise ValueError("only https and ssh are")


def _https(url: str) -> HttpsUrl:
    endpoint = parse_https(url)
    if not endpoint.path:
        raise ValueError("it has no path")
    return HttpsUrl(endpoint)


def _ssh(url: str) -> SshUrl:
    parts = split(url)
    path = path_of(parts)
    # As git does: /~user/repository is below the user's home.
    return _checked(user_of(parts), host_of(parts), port_of(parts, SSH_PORT), path[1:] if path[1:2] == "~" else path)


def _scp(url: str) -> SshUrl:
    match = _SCP.fullmatch(url)
    if match is None:
        raise ValueError("it is neither https, ssh nor user@host:path")
    # Read as the URL it abbreviates, so that there is one set of rules for hosts and paths.
    path = match["path"]
    parts = split(f"ssh://{match['host']}/{path.lstrip('/')}")
    path_of(parts)
    return _checked(match["user"] or "", host_of(parts), SSH_PORT, path)


def _checked(user: str, host: str, port: int, path: str) -> SshUrl:
    if not path.strip("/") or path.startswith("-") or _UNQUOTABLE.search(path):
        raise ValueError("its path is empty, begins with a dash, or holds a quote")
    if user.startswith("-"):
        raise ValueError("its user begins with a dash")  # ssh would take it for an option
    return SshUrl(user or DEFAULT_USER, host, port, path)
