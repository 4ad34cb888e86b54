"""A bearer token of a service account on a tenant's cluster, and when it is renewed: decided here and nowhere else.

Called by :mod:`service_account` with the cluster's answer. The time is noted on Argo CD's Secret
(:mod:`stored_account`), so that whichever agent owns the instance by then renews the token; ``secret_checks`` makes the
row's next check by then.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.agent.credentials.network.resolver import ConnectionProblem, Unreachable
from services.common.kubernetes import Manifest

RENEWAL_SHARE = 0.5
"""Of its lifetime, after which a token is renewed."""
MIN_RENEWAL = timedelta(minutes=5)
MAX_TOKEN_LENGTH = 16 * 1024


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token of the account."""

    text: str = field(repr=False)
    expires_at: datetime
    renew_at: datetime


def issued_token(status: Manifest, asked: timedelta, now: datetime) -> Token:
    """The token in a TokenRequest's status; ``asked`` is the lifetime asked for. Raises Unreachable if there is none.

    The cluster may grant less than was asked for; it may not make us ask all the time, nor never again.
    """
    text, expires = status.get("token"), None
    with contextlib.suppress(ValueError):
        expires = datetime.fromisoformat(str(status.get("expirationTimestamp")))
    acceptable = isinstance(text, str) and text.isascii() and text.isprintable() and 0 < len(text) <= MAX_TOKEN_LENGTH
    if not acceptable or expires is None or expires.tzinfo is None:
        raise Unreachable(ConnectionProblem.ANSWER)
    lifetime = min(expires - now, asked)
    return Token(str(text), expires, now + max(MIN_RENEWAL, lifetime * RENEWAL_SHARE))
