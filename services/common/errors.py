"""The four kinds of failure. An error's type is the decision of what happens next.

Adapters translate library exceptions into these once, with ``raise … from``; the loops match on the type and
on nothing else.
"""

from __future__ import annotations


class GitOpsError(Exception):
    """Base of every error this product raises on purpose. Its text is one line, fit to be shown to a person."""


class Retry(GitOpsError):
    """It may work in a moment: a time-out, a lost connection, a conflict. Try again with backoff."""


class Wait(GitOpsError):
    """It will work once something else has happened. Look again when that something changes."""


class AskedAgain(Wait):
    """``Wait`` for what whoever asked for it learns of, too, and asks again then: not to wait loses time alone."""


class Permanent(GitOpsError):
    """It will never work as asked. The message goes on the CR's condition; nothing is retried."""


class RefusedInput(Permanent):
    """What a user wrote is refused, and the text is for that user: other texts of agents are for operators."""


class Poison(GitOpsError):
    """The message itself cannot be understood. It goes to the dead letters, and the next one is taken."""


class StartupError(GitOpsError):
    """A process cannot start. Ends it with one line on stderr and ``exit_code``."""

    exit_code = 1


class InvalidConfiguration(StartupError):
    """A setting, or the database's revision, does not fit this build."""

    exit_code = 2


class Unavailable(StartupError):
    """A dependency did not answer within the start-up time (EX_UNAVAILABLE of sysexits.h)."""

    exit_code = 69


class NoPermission(StartupError):
    """A dependency answered that we may not (EX_NOPERM of sysexits.h)."""

    exit_code = 77
