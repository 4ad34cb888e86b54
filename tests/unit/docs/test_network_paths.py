"""The page of who gets where says what the tests on a node try."""

from __future__ import annotations

from collections.abc import Iterator

from devstack.paths import ROOT
from tests.node.paths import ELSEWHERE
from tests.node.test_network_paths import GUARDED, PATHS, VISITORS

PAGE = ROOT / "docs" / "network-paths.md"
RESERVED = ("metadata", "private", "provider's", "reserved", "benchmarks'")


def out() -> Iterator[str]:
    """A line for each pod of ours, and of Argo CD's."""
    for pod, reached in PATHS.items():
        yield f"| {pod} | {', '.join(sorted(reached)) or 'nothing'} |"


def inwards() -> Iterator[str]:
    """A line for each place that not everybody gets to."""
    callers = {**PATHS, **VISITORS}
    for place in sorted(GUARDED):
        found = sorted(name for name in callers if place in {*PATHS.get(name, ()), *VISITORS.get(name, ())})
        yield f"| {place} | {', '.join(found) or 'nobody'} |"


def elsewhere() -> Iterator[str]:
    """A line for each address that stands for a network."""
    for name, place in ELSEWHERE.items():
        if name.startswith(RESERVED):
            yield f"| {name} | {place.address}, port {place.port} | {', '.join(allowed_to(name)) or 'nobody'} |"


def allowed_to(place: str) -> list[str]:
    return sorted(pod for pod, reached in PATHS.items() if place in reached)


def test_page_when_read_then_its_tables_are_those_that_are_tried() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line]
    heads = ["| pod | gets to |", "| place | let in |", "| place | address tried | let out to it |"]
    assert [row for row in rows if row not in heads] == [*out(), *inwards(), *elsewhere()]
