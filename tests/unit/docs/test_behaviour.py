"""The table of behaviour names tests that exist."""

from __future__ import annotations

import re

import pytest

from services.common.paths import ROOT

TEXT = (ROOT / "docs" / "behaviour.md").read_text()
PROOFS = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", TEXT)))
POINTS = re.findall(r"^\| (\d+\.\d+) \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("file", "test"), PROOFS)
def test_proof_when_a_point_names_it_then_it_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)


def test_points_when_listed_then_each_has_a_number_of_its_own() -> None:
    assert POINTS
    assert len(POINTS) == len(set(POINTS))
