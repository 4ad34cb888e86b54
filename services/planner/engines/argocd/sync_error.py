"""The condition SyncError where Argo CD has none: it writes one only once an operation has ended without success.

One that is retried without a limit does not end: Argo CD keeps it running, and says in the operation's state alone why
its last attempt failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from services.common.json_values import dict_of, dicts_of, text_of
from services.kinds.shared.text import engine_words

_FAILED = frozenset({"Failed", "Error"})
_NEXT_ATTEMPT = re.compile(r"\.? Retrying attempt #\d+ at [^.]*\.$")
"""Of another text with each attempt; the condition stays as it is while the reason does."""
_REASONS_ELSEWHERE = "one or more "
"""So Argo CD's messages begin that say of no resource what is wrong with it."""


def sync_error(operation: Mapping[str, Any], shown: str | None) -> str | None:
    """Why the last attempt to sync failed, in Argo CD's own words; None if nothing is known against it.

    Args:
        operation: the operation's state, as Argo CD reports it.
        shown: the message of the condition if it holds now: while an attempt runs the one before it is all that is
            known.
    """
    if _has_failed(operation):
        return _words(operation)
    return shown if operation.get("phase") in ("Running", "Terminating") else None


def _has_failed(operation: Mapping[str, Any]) -> bool:
    """It ended so, or waits for the next attempt: then alone it has a finish, and runs all the same."""
    phase = operation.get("phase")
    return phase in _FAILED or (phase == "Running" and bool(operation.get("finishedAt")))


def _words(operation: Mapping[str, Any]) -> str:
    message = _NEXT_ATTEMPT.sub("", engine_words(text_of(operation.get("message"))))
    if not message.startswith(_REASONS_ELSEWHERE):
        return message
    results = dicts_of(dict_of(operation.get("syncResult")).get("resources"))
    said = (engine_words(text_of(result.get("message"))) for result in results if _is_refused(result))
    reasons = dict.fromkeys(reason for reason in said if reason and reason not in message)
    return f"{message}: {'; '.join(reasons)}" if reasons else message


def _is_refused(result: Mapping[str, Any]) -> bool:
    return result.get("status") == "SyncFailed" or result.get("hookPhase") in _FAILED
