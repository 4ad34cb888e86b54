"""How every process starts, and how it reports that it cannot."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import TypeVar

from pydantic_settings import BaseSettings

from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Retry, StartupError, Unavailable
from services.common.settings import load

ResultT = TypeVar("ResultT")
SettingsT = TypeVar("SettingsT", bound=BaseSettings)


def run_service(service: str, settings: type[SettingsT], start: Callable[[SettingsT], None]) -> None:
    """Run a service with settings from the environment; with ``--check-settings`` only check them.

    Invalid settings end the process with exit code 2 and one line that names each variable.
    """
    arguments = ArgumentParser(prog=service)
    arguments.add_argument("--check-settings", action="store_true", help="read the settings, say what is wrong, end")
    only_check = arguments.parse_args().check_settings

    def begin() -> None:
        read = load(settings)
        if not only_check:
            start(read)

    run(service, begin)


def run(service: str, start: Callable[[], None]) -> None:
    """Run ``start``; a start-up error becomes one line on stderr and its exit code."""
    try:
        start()
    except StartupError as error:
        print(f"{service}: error: {one_line(error)}", file=sys.stderr)  # noqa: T201 - stderr is the interface here
        raise SystemExit(error.exit_code) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def await_dependency(
    what: str, attempt: Callable[[], ResultT], timeout_seconds: float, *, complaint: str = "did not answer within"
) -> ResultT:
    """Call ``attempt`` until it succeeds, backing off after each Retry.

    Raises:
        Unavailable: ``what`` still failed when ``timeout_seconds`` were over; carries ``complaint`` and the last
            reason.
    """
    deadline, delays = time.monotonic() + timeout_seconds, Backoff(limit=1)
    while True:
        try:
            return attempt()
        except Retry as error:
            delay = delays.next_delay()
            if time.monotonic() + delay > deadline:
                raise Unavailable(f"{what} {complaint} {timeout_seconds:g} s: {one_line(error)}") from error
            time.sleep(delay)


def one_line(error: GitOpsError) -> str:
    """The error's text without line breaks."""
    return " ".join(str(error).split())
