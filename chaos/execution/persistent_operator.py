"""An operator on a stack on which other things fail meanwhile: who does again what failed, and starts what has ended.

Each command says so itself: it ends with code 69 when it has waited in vain, and may be run again at any point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import structlog

from devstack.harness.hosted import HostedStack
from devstack.harness.operator import Operator
from services.common.backoff import Backoff
from services.common.errors import GitOpsError, InvalidConfiguration, Unavailable

log = structlog.get_logger(__name__)

PATIENCE_SECONDS = 600.0

T = TypeVar("T")


class PersistentOperator(Operator):
    """Of one stack."""

    def __init__(self, stack: HostedStack, backups: Path, restarted: dict[str, int]) -> None:
        """``restarted``: how often each process was started that had ended by itself."""
        super().__init__(stack, backups)
        self._restarted = restarted

    def run(self, line: str, accepted: Collection[int] = (0,), **variables: str) -> str:
        """As any operator, until it does not end with "unavailable"; psql has no code of its own for that."""

        def type_command() -> str:
            return Operator.run(self, line, accepted, **variables)

        def may_pass() -> bool:
            return line.startswith("psql ") or self.ended[line] == Unavailable.exit_code

        return self._until_done(type_command, may_pass)

    def kill_process(self, name: str) -> None:
        """End it, if it has not ended by itself."""
        with suppress(InvalidConfiguration):
            super().kill_process(name)

    def start_process(self, name: str) -> None:
        """Start it, again and again: what it needs may be out of reach."""

        def start() -> None:
            if name not in self._stack.pids():
                Operator.start_process(self, name)

        self._until_done(start, lambda: True)

    def _until_done(self, act: Callable[[], T], may_pass: Callable[[], bool]) -> T:
        delays, deadline = Backoff(first=0.5, limit=5), time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return act()
            except GitOpsError as error:
                if not may_pass() or time.monotonic() > deadline:
                    raise
                log.info("to be done again", error=str(error))
            self._start_what_died()
            time.sleep(delays.next_delay())

    def _start_what_died(self) -> None:
        """As a kubelet does. What does not start is left for the next time."""
        for name in [item["name"] for item in self._stack.processes() if item["phase"] == "died"]:
            self._restarted[name] += 1
            with suppress(GitOpsError):
                self._stack.start(name)
