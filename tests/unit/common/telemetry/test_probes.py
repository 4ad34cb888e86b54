"""The probes answer whoever asks properly, whatever others do to their port."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx2
import pytest

from services.common.telemetry import Probes, probes

ANSWER_SECONDS = 20.0


@pytest.fixture
def port() -> Iterator[int]:
    server = Probes("agent", alive=str, ready=lambda: "no partitions yet")
    yield server.start("127.0.0.1", 0)
    server.stop()


def status(port: int, path: str = "/healthz") -> int:
    return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=ANSWER_SECONDS).status_code


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes it within the time."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_healthz_when_another_connection_is_idle_then_it_is_answered(port: int) -> None:
    with connected(port):
        assert status(port) == 200


def test_healthz_when_another_request_never_ends_then_it_is_answered(port: int) -> None:
    with connected(port) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert status(port) == 200


def test_connection_when_it_asks_nothing_for_long_then_it_is_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes._Handler, "timeout", 0.05)
    with connected(port) as idle:
        assert is_closed(idle)


def test_healthz_when_more_are_connected_than_are_served_then_the_oldest_makes_room(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "MAX_CONNECTIONS", 3)
    with ExitStack() as stack:
        oldest, *_ = [stack.enter_context(connected(port)) for _ in range(3)]
        assert status(port) == 200
        assert is_closed(oldest)


@pytest.mark.parametrize(
    "head",
    [b"\r\n\r\n", b"hello\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000],
    ids=["empty", "word", "tls", "endless"],
)
def test_request_when_it_is_not_one_of_http_then_its_connection_is_closed_and_others_are_answered(
    port: int, head: bytes
) -> None:
    with connected(port) as stranger:
        stranger.sendall(head)
        with suppress(ConnectionResetError):
            while stranger.recv(1024):
                pass
    assert status(port) == 200


def test_metrics_when_asked_for_then_they_come_in_the_format_that_was_accepted(port: int) -> None:
    url = f"http://127.0.0.1:{port}/metrics"
    plain = httpx2.get(url)
    modern = httpx2.get(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert plain.headers["Content-Type"].startswith("text/plain")
    assert 'gitops_ready{service="agent",workspace=""} 0.0' in plain.text
    assert modern.text.endswith("# EOF\n")


def test_readyz_when_not_ready_then_it_says_why(port: int) -> None:
    answer = httpx2.get(f"http://127.0.0.1:{port}/readyz?verbose")
    assert (answer.status_code, answer.text) == (503, "no partitions yet")
