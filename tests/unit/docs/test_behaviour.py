"""The tables of behaviour and of hostile inputs name tests that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from devstack.paths import ROOT

TEXT = (ROOT / "docs" / "behaviour.md").read_text()
POINT = re.compile(r"^\| (\d+\.\d+[a-z]?|\+) \|(.*)\|$", re.MULTILINE)
PROOF = re.compile(r"`([\w/]+\.py)?(?:::(test_\w+))?`")
MOST_TESTS, LONGEST_TEXT = 6, 300
"""Of one point, and of what it says: a reader sees them at a glance."""


def proofs_in(cell: str) -> Iterator[tuple[str, str]]:
    """File and test of each that a cell names; a name alone is of the file before it."""
    file = ""
    for named, test in PROOF.findall(cell):
        file = named or file
        if named or test:
            yield file, test


POINTS = [(number, [cell.strip() for cell in row.split(" | ")]) for number, row in POINT.findall(TEXT)]
PROOFS = sorted({proof for _, cells in POINTS for proof in proofs_in(cells[-1])})
SECURITY = (ROOT / "docs" / "security.md").read_text()
FILES = sorted(set(re.findall(r"`tests/([\w/]+\.py)(?:::(test_\w+))?`", SECURITY)))


@pytest.mark.parametrize(("file", "test"), PROOFS)
def test_proof_when_a_point_names_it_then_it_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test + r'[(]' if test else 'test_'}", (ROOT / "tests" / file).read_text(), re.M)


def test_points_when_listed_then_each_has_a_number_of_its_own() -> None:
    numbers = [number for number, _ in POINTS if number != "+"]
    assert len(numbers) > 1
    assert len(numbers) == len(set(numbers))


def test_points_when_listed_then_none_is_overlooked() -> None:
    rows = re.findall(r"^\| (?!---|  ?\|)(\S+) \|", TEXT, re.MULTILINE)
    assert [number for number, _ in POINTS] == rows


def test_points_when_listed_then_each_names_its_proof() -> None:
    assert [number for number, cells in POINTS if not [*proofs_in(cells[-1])]] == []


def test_points_when_listed_then_each_can_be_taken_in_at_a_glance() -> None:
    long = [number for number, cells in POINTS if max(map(len, cells[:-1])) > LONGEST_TEXT]
    crowded = [number for number, cells in POINTS if len([*proofs_in(cells[-1])]) > MOST_TESTS]
    assert (long, crowded) == ([], [])


@pytest.mark.parametrize(("file", "test"), FILES)
def test_input_when_it_names_its_proof_then_that_is_there(file: str, test: str) -> None:
    assert re.search(rf"^(async )?def {test or 'test_'}", (ROOT / "tests" / file).read_text(), re.MULTILINE)


def test_inputs_when_listed_then_each_names_its_proof() -> None:
    rows = SECURITY.partition("## Hostile inputs")[2].partition("\n## ")[0]
    inputs = re.findall(r"^\| (?!input|---)(.*)\|$", rows, re.MULTILINE)
    assert len(inputs) > 1
    assert [row for row in inputs if not re.search(r"`tests/[\w/]+\.py(::test_\w+)?` $", row)] == []
