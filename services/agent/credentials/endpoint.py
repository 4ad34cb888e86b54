"""URLs of servers that tenants name, taken apart strictly: what parsers could read in two ways is refused. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import SplitResult, urlsplit

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\.?", re.ASCII)
_PATH = re.compile(r"(/([A-Za-z0-9._~!$()*+,=:@-]|%[0-9A-Fa-f]{2})+)*/?", re.ASCII)
_TEXT = re.compile(r"[!-~]{1,2048}", re.ASCII)
"""Printable ASCII: urlsplit drops line breaks and tabs, and reads look-alikes of slashes, on its own account."""

HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An https server and the path below which it answers."""

    host: str
    """Name or address, without brackets."""
    port: int
    path: str
    """Without a slash at its end; empty for the root."""
    user: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


def parse_https(url: str) -> Endpoint:
    """Take ``url`` apart. Raises ValueError: not https, or with anything but host, port, path and a user's name."""
    parts = split(url)
    if parts.scheme != "https":
        raise ValueError("the scheme is not https")
    return Endpoint(host_of(parts), port_of(parts, HTTPS_PORT), path_of(parts).rstrip("/"), user_of(parts))


def split(url: str) -> SplitResult:
    """Split ``url``. Raises ValueError if it holds anything unusual, or a query, fragment or password."""
    if not _TEXT.fullmatch(url) or "\\" in url:
        raise ValueError("it is empty, too long, or holds characters that do not belong in a URL")
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None:
        raise ValueError("it is not a URL")
    if "?" in url or "#" in url:
        raise ValueError("it has a query or a fragment")
    return parts


def host_of(parts: SplitResult) -> str:
    """The host. Raises ValueError if it is none that can be looked up."""
    host = parts.hostname or ""
    if ":" in host:
        try:
            return str(IPv6Address(host))
        except AddressValueError:
            host = ""
    if not _HOST.fullmatch(host) or ".." in host:
        raise ValueError("its host is neither a name nor an address")
    return host


def port_of(parts: SplitResult, default: int) -> int:
    """The port. Raises ValueError."""
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("its port is not a number between 1 and 65535")
    return port or default


def path_of(parts: SplitResult) -> str:
    """The path. Raises ValueError if a server and we could read it differently."""
    if not _PATH.fullmatch(parts.path) or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("its path holds characters or segments that are not accepted")
    return parts.path


def user_of(parts: SplitResult) -> str:
    """The user's name. Raises ValueError if there is a password, or a name with anything unusual."""
    if parts.password is not None:
        raise ValueError("it holds a password")
    user = parts.username or ""
    if ("@" in parts.netloc and not user) or not re.fullmatch(r"[A-Za-z0-9._-]{0,64}", user, re.ASCII):
        raise ValueError("its user is not accepted")
    return user
