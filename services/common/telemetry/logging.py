"""Structured logs on stderr: one event, one line."""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import Path
from typing import Literal

import structlog
from structlog.tracebacks import ExceptionDictTransformer

CHATTY_LIBRARIES = ("aiokafka", "faust", "mode", "httpx2")
"""Libraries whose INFO lines report each connection and inner service."""

_RENDERERS: dict[Literal["json", "console"], list[structlog.typing.Processor]] = {
    # Both without the frames' local variables: they hold what users sent, and what only we may know. Exceptions are
    # rendered here and nowhere earlier, so that this is true of the libraries' records as well.
    "json": [
        structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(),
    ],
    "console": [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)],
}

DEEPEST = 8


def configure_logging(service: str, level: str, style: Literal["json", "console"]) -> None:
    """Send structlog's and the libraries' log lines to stderr in one format. Called once, by the bootstrap."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_RENDERERS[style]],
            foreign_pre_chain=shared,
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for library in CHATTY_LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
    structlog.contextvars.bind_contextvars(service=service)


def raised_at(defect: BaseException) -> str:
    """Where an error was raised: the deepest calls, the last first.

    Without its text, which may have a tenant's values.
    """
    frames = traceback.extract_tb(defect.__traceback__)[-DEEPEST:]
    return " < ".join(f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}" for frame in reversed(frames))
