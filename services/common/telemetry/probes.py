"""/metrics, /healthz and /readyz on threads of their own, so that a busy event loop is still measured.

A loop that has stopped is found by its :class:`Heartbeat`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from services.common.clock import Clock, SystemClock
from services.common.errors import InvalidConfiguration
from services.common.telemetry.metrics import READY

IDLE_SECONDS = 5.0
"""How long a client may take to send or accept the next bytes."""
MAX_CONNECTIONS = 32
"""Each connection has a thread. A further one closes the oldest, so open connections cannot keep the kubelet out."""

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def handle(self) -> None:
        """Answer one request. A client that is too slow or has gone gets no answer."""
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing: there may be a probe every second."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._open: OrderedDict[socket.socket, None] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a new connection."""
        with self._lock:
            while len(self._open) >= MAX_CONNECTIONS:
                oldest, _ = self._open.popitem(last=False)
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end and closes it
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection has ended."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)


class Probes:
    """The HTTP end of a service's telemetry.

    ``alive`` answers /healthz and ``ready`` /readyz: each returns "" when all is well, else the reason, in one line.
    ``role`` is what /readyz says of a process that is well but not the one at work; such a one is ready all the same,
    or no rolling update would ever end. All three are called on the server's threads.
    """

    def __init__(
        self,
        service: str,
        alive: Callable[[], str],
        ready: Callable[[], str],
        role: Callable[[], str] = str,
        workspace: str = "",
    ) -> None:
        """Nothing is served before :meth:`start`. ``workspace``: the one that the service serves, if it serves one."""
        self._alive, self._ready, self._role = alive, ready, role
        self._ready_gauge = READY.labels(service, workspace)
        self._metrics = make_wsgi_app()
        self._server: WSGIServer | None = None

    def start(self, host: str, port: int) -> int:
        """Serve on ``host``:``port`` (0: any free one); returns the port. Raises InvalidConfiguration if taken."""
        try:
            self._server = make_server(host, port, self._answer, server_class=_Server, handler_class=_Handler)
        except OSError as error:
            raise InvalidConfiguration(f"METRICS_PORT: cannot listen on {host}:{port}: {error.strerror}") from error
        threading.Thread(target=self._server.serve_forever, name="probes", daemon=True).start()
        return int(self._server.server_port)

    def stop(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/healthz":
                return _verdict(self._alive(), start_response)
            case "/readyz":
                return _verdict(self._readiness(), start_response, self._role())
            case _:
                self._readiness()
                answer: Iterable[bytes] = self._metrics(environ, start_response)
                return answer

    def _readiness(self) -> str:
        reason = self._ready()
        self._ready_gauge.set(0 if reason else 1)
        return reason


def _verdict(reason: str, start_response: StartResponse, well: str = "") -> Iterable[bytes]:
    start_response("503 Service Unavailable" if reason else "200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [(reason or well or "ok").encode()]


SECONDS = 1.0
SILENT_SECONDS = 15.0
"""Longer than any turn of a working loop: a large batch takes a second or two, a garbage collection less."""


class Heartbeat:
    """When a loop last ran. It counts as alive when created, so a loop that never starts is reported, too."""

    def __init__(self, clock: Clock | None = None, limit: float = SILENT_SECONDS) -> None:
        self._clock, self._limit = clock or SystemClock(), limit
        self._at = self._clock.time()

    async def keep_beating(self) -> None:
        """Beat for ever, in a task of the loop."""
        while True:
            self.beat()
            await asyncio.sleep(SECONDS)

    def beat(self) -> None:
        """The loop has run."""
        self._at = self._clock.time()

    def silence(self) -> str:
        """Why the process should be replaced; empty while the loop runs."""
        silent = self._clock.time() - self._at
        return f"the loop has not come round for {silent:.0f} s" if silent > self._limit else ""
