"""The four kinds of failure. An error's type is the decision of what happens next.

Adapters translate library exceptions into these once, with ``raise … from``; the loops match on the type and
on nothing else.
"""

from __future__ import annotations


class GitOpsError(Exception):
    """Base of every error this product raises on purpose. Its text is one line, fit to be shown to a person."""


class Retry(GitOpsError):
    """It may work in a moment: a time-out, a lost connection, a conflict. It is tried again with backoff."""


class Wait(GitOpsError):
    """It will work once something else has happened, and is tried again then."""


class AskedAgain(Wait):
    """A ``Wait`` whose cause the requester also sees, and asks again. Not to wait costs only time."""


class Permanent(GitOpsError):
    """It will never work as requested. The message is shown in the resource's condition; nothing is retried."""


class RefusedInput(Permanent):
    """A user's input is refused, and the text is for that user. Other texts of agents are for operators."""


class Poison(GitOpsError):
    """The message itself cannot be processed. It becomes a dead letter, and the next message follows."""


class StartupError(GitOpsError):
    """The process cannot start. It ends with one line on stderr and ``exit_code``."""

    exit_code = 1


class InvalidConfiguration(StartupError):
    """A setting, or the database's revision, does not match this build."""

    exit_code = 2


class Unavailable(StartupError):
    """A dependency did not answer within the start-up time (EX_UNAVAILABLE of sysexits.h)."""

    exit_code = 69


class NoPermission(StartupError):
    """A dependency refused us (EX_NOPERM of sysexits.h)."""

    exit_code = 77
