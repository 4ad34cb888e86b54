"""A write that the API server forbids waits until an operator grants the right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from services.common.errors import Wait
from services.common.kubernetes import Rejected


@contextmanager
def waiting_for_rights(rights: str, wait: type[Wait] = Wait) -> Iterator[None]:
    """Raises ``wait`` naming ``rights`` if a call inside is forbidden."""
    try:
        yield
    except Rejected as error:
        if not error.is_forbidden:
            raise
        raise wait(f"grant {rights}: {error}") from error
