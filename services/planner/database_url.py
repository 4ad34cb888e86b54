"""Whether a URL of the database says no more than it does. Services and ``gitopsctl`` ask before they connect."""

from __future__ import annotations

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import PostgresDsn, TypeAdapter, ValidationError


def check_database_url(url: str) -> None:
    """Raises ValueError, which shows nothing of ``url``."""
    try:
        TypeAdapter(PostgresDsn).validate_python(url)
        parts = conninfo_to_dict(url)
    except (ValidationError, ProgrammingError):  # their texts show parts of the URL
        raise ValueError("not a URL of PostgreSQL; write postgresql://user:…@host:port/name") from None
    # libpq would then encrypt if the server likes to, and check nothing. It sees to "system" by itself.
    if parts.get("sslrootcert", "system") != "system" and parts.get("sslmode") not in ("verify-ca", "verify-full"):
        raise ValueError("sslrootcert has no effect without sslmode=verify-full")
