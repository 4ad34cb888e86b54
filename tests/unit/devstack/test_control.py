"""Requests reach the supervisor, answers and errors come back, however deep the folder lies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from devstack.harness.control import ask, serve
from services.common.errors import InvalidConfiguration, Unavailable


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[Path]:
    """A server that echoes, or raises what it is told to."""

    async def handle(request: dict[str, Any]) -> Any:
        match request:
            case {"raise": "invalid"}:
                raise InvalidConfiguration("no such process")
            case {"raise": "unavailable"}:
                raise Unavailable("did not come up")
            case _:
                return request

    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    server = await serve(folder / "control.sock", handle)
    yield folder / "control.sock"
    server.close()


async def test_request_when_sent_then_the_result_comes_back(address: Path) -> None:
    assert await asyncio.to_thread(ask, address, {"a": ["ü", 1]}) == {"a": ["ü", 1]}


@pytest.mark.parametrize(("kind", "error"), [("invalid", InvalidConfiguration), ("unavailable", Unavailable)])
async def test_request_when_refused_then_the_error_keeps_its_type(
    address: Path, kind: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"no such process|did not come up"):
        await asyncio.to_thread(ask, address, {"raise": kind})


async def test_socket_when_served_then_only_its_owner_may_connect(address: Path) -> None:
    assert address.stat().st_mode & 0o777 == 0o600  # noqa: ASYNC240


@pytest.mark.parametrize("folder", [".", "absent"])
def test_request_when_nobody_listens_then_it_is_unavailable(tmp_path: Path, folder: str) -> None:
    with pytest.raises(Unavailable, match="gitopsctl dev up"):
        ask(tmp_path / folder / "control.sock", {})


def test_request_when_the_supervisor_was_killed_then_it_is_unavailable(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415

    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    with pytest.raises(Unavailable, match="no stack is running"):
        ask(tmp_path / "s", {})
