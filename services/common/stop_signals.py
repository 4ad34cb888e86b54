"""SIGTERM and SIGINT ask a process to end. They call one function of the process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def handle_stop_signals(stop: Callable[[], object]) -> None:
    """Have ``stop`` called in the main thread, between two instructions. For a process without an event loop."""
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stop())


def handle_stop_signals_in_loop(stop: Callable[[], object]) -> None:
    """Have ``stop`` called by the running event loop, at once."""
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop)
