"""Since when a topic has all that was written to it, by its retention."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.cli.replay.kept_messages import is_kept_since

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
WEEK_MS = 604_800_000


@pytest.mark.parametrize(
    ("ago", "retention_ms", "retention_bytes", "kept"),
    [
        (timedelta(days=6), WEEK_MS, -1, True),
        (timedelta(days=7, minutes=-2), WEEK_MS, -1, True),
        (timedelta(days=7), WEEK_MS, -1, False),  # clocks differ
        (timedelta(days=8), WEEK_MS, -1, False),
        (timedelta(hours=1), WEEK_MS, 1_000_000, False),
        (timedelta(hours=1), -1, -1, False),
        (timedelta(days=8), 2**63 - 1, -1, True),
    ],
)
def test_messages_when_asked_for_then_they_are_kept_if_retention_cannot_have_taken_them(
    ago: timedelta, retention_ms: int, retention_bytes: int, kept: bool
) -> None:
    assert is_kept_since(NOW - ago, NOW, retention_ms, retention_bytes) == kept
