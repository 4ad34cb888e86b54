"""The tables of behaviour and of hostile inputs name tests that exist."""

from __future__ import annotations

import re

import pytest

from devstack.paths import ROOT

TEXT = (ROOT / "docs" / "behaviour.md").read_text()
PROOF = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
PROOFS = sorted(set(PROOF.findall(TEXT)))
SECURITY = (ROOT / "docs" / "security.md").read_text()
FILES = sorted(set(re.findall(r"`tests/([\w/]+\.py)(?:::(test_\w+))?`", SECURITY)))
POINTS = re.findall(r"^\| (\d+\.\d+) \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("file", "test"), PROOFS)
def test_proof_when_a_point_names_it_then_it_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)


def test_points_when_listed_then_each_has_a_number_of_its_own() -> None:
    assert POINTS
    assert len(POINTS) == len(set(POINTS))


def test_points_when_listed_then_each_names_its_proof() -> None:
    rows = re.findall(r"^\| (\d+\.\d+|\+) \|(.*)$", TEXT, re.MULTILINE)
    assert [number for number, row in rows if not PROOF.search(row)] == []


@pytest.mark.parametrize(("file", "test"), FILES)
def test_input_when_it_names_its_proof_then_that_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test or 'test_'}", (ROOT / "tests" / file).read_text(), re.MULTILINE)


def test_inputs_when_listed_then_each_names_its_proof() -> None:
    rows = SECURITY.partition("## Hostile inputs")[2].partition("\n## ")[0]
    inputs = re.findall(r"^\| (?!input|---)(.*)\|$", rows, re.MULTILINE)
    assert len(inputs) > 1
    assert [row for row in inputs if not re.search(r"`tests/[\w/]+\.py(::test_\w+)?` $", row)] == []
