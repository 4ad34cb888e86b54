"""Redrives dead letters: sends a message to its log again, or asks Connect for a streamed row again.

Called by :mod:`dlq`, with letters that :mod:`letter_judge` has allowed.

Kafka has no write that depends on what the log holds. So what comes between the last look and the letter is looked at
afterwards. A newer state of the resource is not harmed: the letter is older by its version. If the resource was removed
meanwhile, planners may not know that it was ever there, and the letter brings it back. So its removal is sent once
more: nothing can come of that but that it is gone, because a uid never returns.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.cli.dead_letters.letter_judge import CLASSES, Judge
from services.cli.dead_letters.row_snapshots import snapshot_request
from services.cli.dead_letters.stored_letters import StoredLetter, mark_done
from services.cli.installation.signals import send_signal
from services.common.avro import SchemaRegistry
from services.common.kafka import Publisher, log_of
from services.common.telemetry import TRACEPARENT


def send_letters(
    publisher: Publisher, letters: Iterable[StoredLetter], judge: Judge, registry: SchemaRegistry, database: str | None
) -> dict[str, str]:
    """Redrive ``letters``, in the order in which they were written. Raises Retry.

    Returns why those stay that something newer came about meanwhile, by their ids.

    1. The message, or the signal, is sent.   Crash: the letter is still there, and superseded by its own message.
    2. If its resource was removed since the last look, the removal is sent again.   Crash before: the resource may be
       back until the next complete list.
    3. The letter is marked as redriven.
    """
    refused = {}
    for stored in sorted(letters, key=lambda each: (each.source, each.letter.offset)):
        if refusal := judge.refusal_by_now(stored):
            refused[stored.id] = refusal
            continue
        letter = stored.letter
        if log_of(letter.topic) in CLASSES:
            offset = _send_to_log(publisher, stored, letter.value, letter.headers.items())
            if (removal := judge.removal_before(stored, offset)) is not None:
                _send_to_log(publisher, stored, removal.value, removal.headers)
        elif database is not None:
            send_signal(database, snapshot_request(stored, registry))
        mark_done(publisher, stored, "redriven")
    return refused


def _send_to_log(
    publisher: Publisher, stored: StoredLetter, value: bytes | None, headers: Iterable[tuple[str, bytes | str | None]]
) -> int:
    """Where the letter is from, with its key; returns the offset. Raises Retry."""
    letter, traced = stored.letter, {name: each for name, each in headers if name == TRACEPARENT and each is not None}
    return publisher.send_message(letter.topic, letter.key, value, traced, letter.partition).result()
