"""What the API server's refusals mean. The one place where HTTP statuses become error types."""

from __future__ import annotations

from services.common.errors import GitOpsError, Permanent, Retry, Wait


class NotFound(Wait):
    """404: the object, its namespace or its kind is not there."""


class AlreadyExists(Permanent):
    """409 on create: someone was first."""


class Conflict(Retry):
    """409 on update: the object changed since it was read."""


class Expired(Retry):
    """410: the resource version is no longer in the API server's history; list again."""


class Refused(Permanent):
    """400, 403, 405, 413, 415, 422: the API server will never accept this request as it is.

    ``status`` tells which; 403 may be mended by an operator.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


REFUSALS = frozenset({400, 403, 405, 413, 415, 422})
UNAUTHORIZED = 401


def from_status(status: int, reason: str, message: str) -> GitOpsError:
    """Translate an HTTP status (and the ``reason`` of the Status object) into an error to raise."""
    text = f"API server answered {status} {reason}: {message}"
    match status:
        case 404:
            return NotFound(text)
        case 409:
            return AlreadyExists(text) if reason == "AlreadyExists" else Conflict(text)
        case 410:
            return Expired(text)
        case _ if status in REFUSALS:
            return Refused(text, status)
        case _:
            return Retry(text)
