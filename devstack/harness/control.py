"""Talk between a stack's supervisor and the commands that act on it: one JSON line each way over a Unix socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from services.common.errors import GitOpsError, InvalidConfiguration, Unavailable

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
"""Answers a request; its GitOpsError is told to the asker."""

LINE_LIMIT = 1 << 20
ANSWER_SECONDS = 660.0
"""Longer than anything may take to start."""


async def serve(path: Path, handle: Handler) -> asyncio.Server:
    """Listen on ``path`` until the server is closed."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await _answer(handle, await reader.readline())
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except ConnectionError:
            pass  # whoever asked has gone
        finally:
            writer.close()

    return await asyncio.start_unix_server(converse, sock=_bind(path), limit=LINE_LIMIT)


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    path.unlink(missing_ok=True)
    with _short(path) as name:
        listener.bind(name)
    path.chmod(0o600)
    return listener


async def _answer(handle: Handler, line: bytes) -> dict[str, Any]:
    try:
        return {"result": await handle(json.loads(line))}
    except GitOpsError as error:
        return {"error": str(error), "unavailable": isinstance(error, Unavailable)}


def ask(path: Path, request: dict[str, Any], timeout_seconds: float = ANSWER_SECONDS) -> Any:
    """Send ``request`` to the supervisor at ``path`` and return its result.

    Raises:
        Unavailable: no supervisor listens, or a process it was to start did not come up.
        InvalidConfiguration: the supervisor refused.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_seconds)
        try:
            with _short(path) as name:
                connection.connect(name)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(connection.makefile("rb").readline() or b"{}")
        except (OSError, ValueError) as error:
            raise Unavailable(f"no stack is running in {path.parent}; start it with 'gitopsctl dev up'") from error
    if "result" not in answer:
        kind = Unavailable if answer.get("unavailable", True) else InvalidConfiguration
        raise kind(answer.get("error", "the stack ended while it was asked"))
    return answer["result"]


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for ``path`` that fits into the 107 bytes of a socket address however deep its folder lies."""
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no stack in {path.parent}; start one with 'gitopsctl dev up'") from error
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
