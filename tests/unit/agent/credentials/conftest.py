from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.agent.credentials.given import Given, Keys


@pytest.fixture
def given(tmp_path: Path) -> Given:
    return Given(Keys(tmp_path))
