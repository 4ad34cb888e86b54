"""Dead letters: messages that could not be processed, as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Such a message, where it came from, and why it was given up."""

    service: str
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]
    error: str
    failed_at: datetime
