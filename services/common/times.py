"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(at: datetime) -> str:
    """In whole seconds, as conditions and Applications have them."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(at: datetime) -> str:
    """In microseconds, as Leases have them."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
