"""Endpoints (host, port, path) of URLs that tenants wrote. Pure.

``services.common.urls`` decides which URLs are accepted, and the address policy which hosts. This module refuses what a
server could read differently from us.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.common.urls.web_address import Parts, port_problem, split_url

HTTPS_PORT = 443

_PRINTABLE = re.compile(r"[!-~]+")
_AMBIGUOUS = frozenset("?#\\%")
"""Characters refused in an API server's URL, to which we append paths."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, and the path under which it answers."""

    host: str
    """Name or address, without brackets."""
    port: int
    path: str
    """The path without a trailing slash; empty for the root."""

    @property
    def origin(self) -> str:
        """Scheme, host and port of the https server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


def parse_https(url: str) -> Endpoint:
    """The endpoint of an API server. Raises ValueError if it is not https, or has more than host, port and path."""
    parts = split_url(url) if _PRINTABLE.fullmatch(url) and not _AMBIGUOUS & set(url) else None
    if parts is None or parts.scheme != "https" or parts.user is not None:
        raise ValueError("it is not an https URL of a host, a port and a path alone")
    if {".", ".."} & set(parts.rest.split("/")):
        raise ValueError("its path has a segment '.' or '..'")
    return endpoint_of(parts, HTTPS_PORT)


def endpoint_of(parts: Parts, port: int) -> Endpoint:
    """The endpoint of ``parts``; ``port`` if they name none. Raises ValueError."""
    if not parts.host:
        raise ValueError("it names no host")
    if problem := port_problem(parts.port):
        raise ValueError(f"it {problem}")
    host = parts.host.removeprefix("[").removesuffix("]")
    return Endpoint(host, int(parts.port or port), parts.rest.rstrip("/"))
