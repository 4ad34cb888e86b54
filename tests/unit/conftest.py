"""What unit tests of all services use."""

from __future__ import annotations

import pytest

from tests.unit.fake_clock import FakeClock


@pytest.fixture
def time() -> FakeClock:
    return FakeClock()
