"""One instance in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.agent.driver import Driver
from tests.unit.agent.fakes import bench


@pytest.fixture
async def driver() -> AsyncIterator[Driver]:
    made = Driver(bench())
    yield made
    await made.instance.stop()
    assert made.defects == []
