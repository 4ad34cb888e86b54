"""What follows from an error of PostgreSQL: the class of its SQLSTATE decides, and that alone.

psycopg's own classes do not tell: a disk that is full at the COMMIT, a server that was made a standby, and a
transaction that stood still for too long are errors of an "internal" sort to it, as a defect of a statement may be.

Whoever calls psycopg asks here: the planner's connection, what it checks when it starts, and ``gitopsctl``.
"""

from __future__ import annotations

import psycopg

from services.common.errors import Permanent, Poison, Retry

TRANSIENT = frozenset(
    {
        "08",  # connection exception
        "25006",  # read-only transaction: a standby, or about to become one
        "25P03",  # idle in transaction for too long: this process stood still
        "25P04",  # the transaction took too long
        "40",  # transaction rollback: a deadlock, a conflict
        "53",  # insufficient resources: disk, memory, connections
        "55",  # not in the prerequisite state: a lock that is not to be had
        "57",  # operator intervention: a restart, a statement that was cancelled
        "58",  # system error: input and output
        "F0",  # configuration file
        "XX",  # internal error: writes that fail for any reason but a full disk
    }
)
"""Classes of SQLSTATE, and single ones, after which the same statements may succeed on another connection."""

OF_VALUES = frozenset(
    {
        "21",  # cardinality violation: a statement writes one row twice
        "22",  # data exception
        "23",  # integrity constraint violation
        "54",  # a limit of the program
    }
)
"""Classes of errors that the values have caused, so that no waiting helps."""


def decision_on(error: psycopg.Error) -> type[Retry | Poison | Permanent]:
    """Whether to try again, to give the values up, or neither: then it is a defect, of this build or its database.

    An error without SQLSTATE is the client's: its connection is gone, or it cannot send the values.
    """
    state = error.sqlstate
    if state is None:
        return _decision_of_client(error)
    if not TRANSIENT.isdisjoint({state, state[:2]}):
        return Retry
    return Poison if state[:2] in OF_VALUES else Permanent


def _decision_of_client(error: psycopg.Error) -> type[Retry | Poison | Permanent]:
    match error:
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Retry
        case psycopg.DataError():
            return Poison
        case _:
            return Permanent


LOGIN_REFUSED = ("password authentication failed", "no password supplied", "no pg_hba.conf entry")
"""Parts of what the server, or libpq, says then. An error of a connection that was never made has no SQLSTATE; a server
that says it in another language is taken for one that does not answer."""


def is_login_refused(error: psycopg.Error) -> bool:
    """Whether the server has answered that it does not let us in: no waiting helps.

    If libpq has tried several hosts, or with and without TLS, each attempt was answered so.
    """
    attempts = str(error).split("FATAL:")[1:] or [str(error)]
    return error.sqlstate is None and all(any(words in each for words in LOGIN_REFUSED) for each in attempts)


def described(error: psycopg.Error) -> str:
    """What PostgreSQL says of it, without the details: they may hold a tenant's values."""
    return error.diag.message_primary or str(error)
