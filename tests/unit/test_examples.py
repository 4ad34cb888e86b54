"""A search tries more examples of every property than a usual run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.unit.examples import FIXED, SEARCH, in_proportion

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("profile", "examples"), [("fixed", 200), ("search", 200 * SEARCH // FIXED)], ids=["usual", "search"]
)
def test_property_when_it_asks_for_a_number_then_a_search_has_so_many_times_more(profile: str, examples: int) -> None:
    assert in_proportion(200, settings.get_profile(profile)) == examples


def test_properties_when_they_ask_for_a_number_then_it_is_scaled() -> None:
    own = {Path(__file__), TESTS / "conftest.py"}
    capped = [
        path for path in TESTS.rglob("*.py") if re.search(r"max_examples=\d", path.read_text()) and path not in own
    ]
    assert capped == []
