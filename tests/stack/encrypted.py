"""Connections to a stack's database, as the server sees them."""

from __future__ import annotations

import psycopg

from devstack.harness.hosted import HostedStack

ENCRYPTED = """
SELECT usename, bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename <> '' GROUP BY usename
"""


def connections(stack: HostedStack) -> dict[str, bool]:
    """By role, whether all of its connections are encrypted; one of them is the superuser's that asks."""
    password = stack.state.secrets()["postgres"]
    superuser = psycopg.conninfo.make_conninfo(stack.environment["DATABASE_URL"], user="postgres", password=password)
    with psycopg.connect(superuser) as connection:
        encrypted: dict[str, bool] = dict(connection.execute(ENCRYPTED).fetchall())
    return encrypted
