"""How a check fails: the reasons and messages of the catalogue of conditions, and what may stand in them."""

from __future__ import annotations

from services.agent.credentials.names import Trouble
from services.common.api.catalogue import credential, environment
from services.common.api.catalogue.entry import Entry

MESSAGE_LIMIT = 1024
SHOWN_LIMIT = 100

SUCCEEDED = environment.CONNECTED.reason
UP_TO_DATE = credential.VALID[0].reason
INVALID_CREDENTIALS = credential.INVALID[0].reason
INVALID_URL = credential.URL_NOT_FOUND[0].reason


class CheckFailed(Exception):
    """A row cannot be composed. ``reason`` and ``message`` go to the tenant: no secret and no answer of a server."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}"[:MESSAGE_LIMIT])
        self.reason, self.message = reason, message[:MESSAGE_LIMIT]


class Unanswered(CheckFailed):
    """The server was not reached, or could not tell: that says nothing of what was to be checked."""


def failed(entry: Entry, detail: str = "") -> CheckFailed:
    """The failure that ``entry`` describes."""
    return CheckFailed(entry.reason, entry.text(detail=detail))


def repository_unreached(trouble: Trouble) -> Unanswered:
    """No repository was found to try credentials on. An outage says nothing of the URL, so it does not deny it."""
    return Unanswered(INVALID_CREDENTIALS if trouble is Trouble.SILENCE else INVALID_URL, trouble.value)


def shown(name: str) -> str:
    """A name that a tenant chose, fit for one line of a message."""
    short = name if len(name) <= SHOWN_LIMIT else f"{name[:SHOWN_LIMIT]}..."
    return "".join(letter if letter.isprintable() else "?" for letter in short)
