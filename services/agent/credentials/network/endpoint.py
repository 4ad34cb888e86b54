"""Endpoints (host, port, path) of URLs that tenants wrote. Pure.

``services.common.urls`` decides which URLs are accepted, and the address policy which hosts. This module refuses what a
server could read differently than we do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.common.urls.web_address import Parts, port_problem, split_url

HTTPS_PORT = 443

_PRINTABLE = re.compile(r"[!-~]+")
_AMBIGUOUS = frozenset("?#\\%")
"""In the URL of an API server, below which paths of our own are asked for."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and the path below which it answers."""

    host: str
    """Name or address, without brackets."""
    port: int
    path: str
    """Without a slash at its end; empty for the root."""

    @property
    def origin(self) -> str:
        """Scheme, host and port, if it is spoken to by https."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


def parse_https(url: str) -> Endpoint:
    """The endpoint of an API server. Raises ValueError: not https, or with anything but host, port and path."""
    parts = split_url(url) if _PRINTABLE.fullmatch(url) and not _AMBIGUOUS & set(url) else None
    if parts is None or parts.scheme != "https" or parts.user is not None:
        raise ValueError("it is not an https URL of a host, a port and a path alone")
    if {".", ".."} & set(parts.rest.split("/")):
        raise ValueError("its path has a segment '.' or '..'")
    return endpoint_of(parts, HTTPS_PORT)


def endpoint_of(parts: Parts, port: int) -> Endpoint:
    """Where ``parts`` lead, to ``port`` if they name none. Raises ValueError."""
    if not parts.host:
        raise ValueError("it names no host")
    if problem := port_problem(parts.port):
        raise ValueError(f"it {problem}")
    host = parts.host.removeprefix("[").removesuffix("]")
    return Endpoint(host, int(parts.port or port), parts.rest.rstrip("/"))
