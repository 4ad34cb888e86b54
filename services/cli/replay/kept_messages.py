"""Since when a topic still has all that was written to it, by its retention."""

from __future__ import annotations

from datetime import datetime

from services.cli.replay.complete_lists import CLOCKS_DIFFER_SECONDS
from services.common.kafka import Brokers, topic_settings


def is_kept_since(moment: datetime, now: datetime, retention_ms: int, retention_bytes: int) -> bool:
    """Whether nothing that was written at ``moment`` or later can have been removed by now.

    A log that is cut off at its size may have lost anything. One that is not cut off at all (-1) has lost what somebody
    removed by hand.
    """
    if retention_ms < 0 or retention_bytes >= 0:
        return False
    return now.timestamp() - moment.timestamp() <= retention_ms / 1000 - CLOCKS_DIFFER_SECONDS


def has_kept(brokers: Brokers, topic: str, moment: datetime, now: datetime) -> bool:
    """Whether the topic still has all messages since ``moment``. Raises Retry, NoPermission."""
    settings = topic_settings(brokers, topic)
    return is_kept_since(moment, now, int(settings["retention.ms"]), int(settings["retention.bytes"]))
