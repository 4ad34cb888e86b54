"""Parses the answers of an API server, or of a proxy before it, into values and errors. Called by :mod:`client`."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import aiohttp
import orjson

from services.common.errors import GitOpsError, Retry
from services.common.json_values import dict_of, dicts_of, text_of
from services.common.kubernetes.api_errors import Details, from_status
from services.common.kubernetes.builtin_kinds import Manifest

MESSAGE_LIMIT = 1024  # an admission message can hold a user's whole object; a log line must not

NETWORK_ERRORS = (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError, ssl.SSLError)

# A watch may be silent for a minute, so only the kernel can tell a quiet API server from one whose host is gone.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ``type`` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Manifest = field(repr=False)  # may be a Secret


async def raise_for_status(response: aiohttp.ClientResponse) -> None:
    """Raise the error that a status means; see :mod:`services.common.kubernetes.api_errors`."""
    if response.status < 400:  # noqa: PLR2004 - HTTP's own boundary
        return
    body = await response.read()
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if not isinstance(status, dict):  # a proxy answered in the API server's place
        status = {"message": body.decode(errors="replace")}
    raise _failure(status, response.status, response.reason or "")


def keep_alive(response: aiohttp.ClientResponse) -> None:
    """Let the kernel probe an idle connection, so that a dead peer ends the read within half a minute."""
    transport = response.connection.transport if response.connection else None
    connection = transport.get_extra_info("socket") if transport else None
    if connection is None:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _KEEP_ALIVE.items():
        if hasattr(socket, option):  # not every platform has all three
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)


async def split_lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Split a chunked body at newlines. A line may be longer than any read buffer."""
    rest = b""
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line


def watch_event(line: bytes) -> WatchEvent:
    """One event of a watch. Raises the error of an ERROR event, and Retry if the line is no event of Kubernetes."""
    event = parse_json(line)
    try:
        type_, content = event["type"], event["object"]
        if type_ == "ERROR":
            raise _failure(content, content.get("code", 500))
        return WatchEvent(type_, content)
    except (KeyError, TypeError, AttributeError) as error:
        raise Retry(f"API server sent a watch event without {error}") from error


def _failure(status: Manifest, code: int, reason: str = "") -> GitOpsError:
    """The error that a Status object means; its text is ``reason`` if the object has none."""
    message = str(status.get("message", ""))[:MESSAGE_LIMIT]
    return from_status(code, status.get("reason", reason), message, _details(dict_of(status.get("details"))))


def _details(details: Manifest) -> Details:
    causes = frozenset(text_of(cause.get("reason")) for cause in dicts_of(details.get("causes")))
    return Details(text_of(details.get("kind")), text_of(details.get("name")), causes)


def parse_json(text: bytes) -> Manifest:
    """Parse an answer. A proxy may cut it short, or answer in the API server's place."""
    try:
        answer: Manifest = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Retry(f"API server sent what is not JSON ({len(text)} bytes): {error}") from error
    return answer


def describe_error(error: BaseException) -> str:
    """The text of ``error``, or its type if it has no text."""
    return str(error) or type(error).__name__
