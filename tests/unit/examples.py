"""How many examples a property is tried with, in proportion to the profile (tests/conftest.py).

A plain number in ``@settings`` replaces the profile's: ``make search`` would try no more than ``make unit``.
"""

from __future__ import annotations

from hypothesis import settings

FIXED, SEARCH = 50, 1000
"""Of a property that asks for no other number: each time, and in a search."""


def in_proportion(number: int, profile: settings | None = None) -> int:
    """As many in a search as ``number`` of the fixed profile; of the ``profile`` that is in force, None."""
    return number * (profile or settings()).max_examples // FIXED
