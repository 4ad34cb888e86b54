"""What unit tests of all services use."""

from __future__ import annotations

import pytest

from tests.unit.still_clock import StillClock


@pytest.fixture
def time() -> StillClock:
    return StillClock()
