"""What log lines say of an error, and what they never say."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from typing import Literal

import pytest
import structlog

from services.common.telemetry import configure_logging

PLANTED = "PLANTED-SECRET"
Style = Literal["json", "console"]

styles = pytest.mark.parametrize("style", ["json", "console"])


def fail() -> None:
    kept = PLANTED.lower()
    raise ValueError(f"{len(kept)} letters")


@styles
def test_error_when_a_library_logs_it_then_its_local_variables_are_left_out(
    style: Style, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("agent", "INFO", style)
    try:
        fail()
    except ValueError:
        logging.getLogger("aiohttp.server").exception("failed")
    said = capsys.readouterr().err
    assert "14 letters" in said
    assert "in fail" in said or '"name": "fail"' in said
    assert PLANTED.lower() not in said


@styles
def test_error_when_it_escapes_a_task_then_its_local_variables_are_left_out(
    style: Style, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("agent", "INFO", style)

    async def escape() -> None:
        fail()

    async def run() -> None:
        task = asyncio.create_task(escape())
        await asyncio.wait([task])

    asyncio.run(run())
    gc.collect()
    said = capsys.readouterr().err
    assert "14 letters" in said
    assert PLANTED.lower() not in said


@styles
def test_error_when_we_log_it_then_it_is_rendered_and_its_local_variables_are_left_out(
    style: Style, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("agent", "INFO", style)
    try:
        fail()
    except ValueError:
        structlog.get_logger("services.agent").exception("failed")
    said = capsys.readouterr().err
    assert "14 letters" in said
    assert "Logging error" not in said
    assert PLANTED.lower() not in said


def test_line_when_written_as_json_then_ours_and_a_librarys_have_the_same_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("agent", "INFO", "json")
    structlog.get_logger("services.agent").info("ours")
    logging.getLogger("library").info("theirs")
    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert set(ours) == set(theirs) == {"event", "level", "timestamp", "service"}
