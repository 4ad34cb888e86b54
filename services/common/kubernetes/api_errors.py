"""What the API server's answers mean. The one place where HTTP statuses become error types."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.errors import GitOpsError, Permanent, Retry, Wait

FORBIDDEN = 403
NOT_FOUND = 404
NAMESPACE_TERMINATING = "NamespaceTerminating"


@dataclass(frozen=True, slots=True)
class Details:
    """What a Status object tells of a failure beside its reason and its message, which is for people."""

    plural: str = ""
    """The kind of the object that it is about, as in the object's path; the field's own name is ``kind``."""
    name: str = ""
    causes: frozenset[str] = frozenset()
    """Reasons, by which machines tell failures of one HTTP status apart."""


class NotFound(Wait):
    """404: the object, its namespace or its kind is not there; ``details`` tell which, if an API server answered."""

    def __init__(self, message: str, details: Details = Details()) -> None:
        super().__init__(message)
        self.details = details

    def is_of(self, plural: str, name: str) -> bool:
        """Whether this very object is not there: its namespace is not known to be missing, nor its kind."""
        return (self.details.plural, self.details.name) == (plural, name)


class NamespaceTerminating(Wait):
    """403: nothing new may be made in the namespace until it has been deleted, and is perhaps made anew."""


class AlreadyExists(Permanent):
    """409 on create: someone was first."""


class Conflict(Retry):
    """409 on update: the object changed since it was read."""


class Expired(Retry):
    """410: the resource version is no longer in the API server's history; list again."""


class Unauthenticated(Retry):
    """401: the credentials are not accepted (yet, or any more: tokens are renewed under us)."""


class ServerFailed(Retry):
    """500, 504: the API server stumbled over this very request. The same request may never work: vary it."""


class Rejected(Permanent):
    """400, 403, 405, 413, 415, 422: the API server will never accept this request as it is.

    ``status`` tells which; 403 may be mended by an operator.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_forbidden(self) -> bool:
        """Whether rights are missing: for the moment, or until an operator grants them."""
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
    """Translate an HTTP status, and what the Status object says, into an error to raise."""
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
