"""The catalogue of conditions: what each looks like, what it means, and what a user can do about it.

The pages for users are made from it, and statuses take types, statuses and reasons from it, so a page explains whatever
a status shows. Most messages are worded here, too. For others an entry has the form, with parts in braces: the rule
that finds a problem words a message that is only ``{detail}``, or is about a field of a spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ERROR = "ErrorOccurred"
DELETING = "Deleting"
THROTTLED = "Throttled"


class Reason(StrEnum):
    """Reasons that conditions of several kinds have."""

    CHECKING = "Checking"
    """The result is not known yet."""
    INVALID_SPEC = "InvalidSpec"
    QUOTA_EXCEEDED = "QuotaExceeded"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason
    SECRET_USE_REFUSED = "SecretUseRefused"  # noqa: S105 - a reason


@dataclass(frozen=True, slots=True)
class Entry:
    """A condition: what it looks like, what it means and what a user can do about it."""

    type: str
    status: str
    reason: str
    message: str
    """A format of ``str.format``: parts in braces differ from case to case."""
    meaning: str
    remedy: str = "Nothing."

    @property
    def state(self) -> tuple[str, str, str]:
        """Status, reason and message."""
        return (self.status, self.reason, self.message)

    def text(self, **values: object) -> str:
        """The message with its parts filled in."""
        return self.message.format(**values)


def error(message: str, meaning: str, remedy: str) -> Entry:
    """The condition ErrorOccurred. Its reason is its type."""
    return Entry(ERROR, "True", ERROR, message, meaning, remedy)


UNKNOWN_ERROR = error(
    "an unknown error occurred",
    "Something failed that you cannot mend.",
    "Wait: it is tried again. If it stays for more than a few minutes, ask your operators.",
)
TENANT_PARKED = error(
    "an unknown error occurred; the operators have been told",
    "A fault of this service holds up your namespace: nothing of it is looked at, what was deployed stays as it is. "
    "What you change meanwhile is kept, and looked at when the fault is mended.",
    "Nothing: the condition goes by itself then. If it stays for long, ask your operators.",
)
TENANT_UNPLACED = error(
    "there is no Argo CD instance for your namespace yet; the operators have been told",
    "Your namespace is new and waits for its place: nothing of it is looked at yet. What you change meanwhile is kept.",
    "Nothing: the condition goes by itself as soon as there is one. If it stays for long, ask your operators.",
)
PARKED = (TENANT_PARKED, TENANT_UNPLACED)
"""Conditions of every kind while its tenant is parked."""
QUOTA_EXCEEDED = error(
    "quota exceeded: {detail}",
    "Your namespace has more resources, or larger ones, than it may have. The oldest ones work; this one does not.",
    "Delete what you do not need; this resource is looked at again when there is room. Or ask your operators for more.",
)
RESOLVED = Entry(ERROR, "False", "ErrorOccurredResolved", "", "There was an error; it is gone.")
IS_THROTTLED = Entry(
    THROTTLED,
    "True",
    THROTTLED,
    "{detail}",
    "Your namespace changes faster than it may. The newest state of each resource is taken, later than usual.",
    "Find out what changes resources so often, usually a loop of automation. Nothing is lost meanwhile.",
)
NOT_THROTTLED = Entry(THROTTLED, "False", "ThrottledResolved", "", "Changes are taken as they come again.")

THROTTLING = (IS_THROTTLED, NOT_THROTTLED)
"""Conditions that every kind may have."""
