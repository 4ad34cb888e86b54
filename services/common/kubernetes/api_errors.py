"""Translates HTTP statuses of the API server into error types. Nothing else does."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.errors import GitOpsError, Permanent, Retry, Wait

FORBIDDEN = 403
NOT_FOUND = 404
NAMESPACE_TERMINATING = "NamespaceTerminating"


@dataclass(frozen=True, slots=True)
class Details:
    """The machine-readable part of a Status object about a failure."""

    plural: str = ""
    """The kind of the object concerned, as in paths. The field of the Status object is called ``kind``."""
    name: str = ""
    causes: frozenset[str] = frozenset()
    """Reasons that distinguish failures with the same HTTP status."""


class NotFound(Wait):
    """404: the object, its namespace or its kind does not exist. ``details`` say which, if an API server answered."""

    def __init__(self, message: str, details: Details = Details()) -> None:
        super().__init__(message)
        self.details = details

    def is_of(self, plural: str, name: str) -> bool:
        """Whether this very object does not exist. False if its namespace or kind may be missing."""
        return (self.details.plural, self.details.name) == (plural, name)


class NamespaceTerminating(Wait):
    """403: nothing can be created in the namespace while it is being deleted."""


class AlreadyExists(Permanent):
    """409 on create: the object exists."""


class Conflict(Retry):
    """409 on update: the object has changed since it was read."""


class Expired(Retry):
    """410: the API server no longer has the resource version in its history. List again."""


class Unauthenticated(Retry):
    """401: the credentials are not accepted at the moment; tokens are renewed while we run."""


class ServerFailed(Retry):
    """500, 504: the API server failed at this request. The same request may never work, so vary it."""


class Rejected(Permanent):
    """400, 403, 405, 413, 415, 422: the API server will never accept this request as it is.

    ``status`` says which. An operator may be able to fix 403.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_forbidden(self) -> bool:
        """Whether rights are missing, for the moment or until an operator grants them."""
        return self.status == FORBIDDEN


REJECTIONS = frozenset({400, 403, 405, 413, 415, 422})
_BY_STATUS: dict[int, type[GitOpsError]] = {
    401: Unauthenticated,
    409: Conflict,
    410: Expired,
    500: ServerFailed,
    504: ServerFailed,
}


def from_status(status: int, reason: str, message: str, details: Details = Details()) -> GitOpsError:
    """The error to raise for an HTTP status and its Status object."""
    text = f"API server answered {status} {reason}: {message}"
    if reason == "AlreadyExists":
        return AlreadyExists(text)
    if status == NOT_FOUND:
        return NotFound(text, details)
    if NAMESPACE_TERMINATING in details.causes:
        return NamespaceTerminating(text)
    if status in REJECTIONS:
        return Rejected(text, status)
    return _BY_STATUS.get(status, Retry)(text)
