"""The page of who gets where says what the tests on a node try."""

from __future__ import annotations

from collections.abc import Iterator

from devstack.paths import ROOT
from tests.node import test_network_paths as of_node
from tests.node.paths import ELSEWHERE, elsewhere_than
from tests.node.test_network_paths import GUARDED, PATHS, STAND_INS, VISITORS, reached_by
from tests.node_argocd import test_network_paths as of_argocd

PAGE = ROOT / "docs" / "network-paths.md"
RESERVED = ("metadata", "private", "provider's", "reserved", "benchmarks'")
API_PORT = 1
"""Any that no place has otherwise."""


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


def outcomes_of_node() -> tuple[int, int]:
    """How many connections of tests/node the tables allow, and how many they refuse."""
    addresses = {name: f"address of {name}" for name in (*PATHS, *STAND_INS, "DNS")}
    places = of_node.places_of(addresses, API_PORT)
    allowed = sum(len(reached_by(name)) for name in PATHS) + sum(map(len, VISITORS.values()))
    tried = sum(len(elsewhere_than(addresses[name], places)) for name in PATHS)
    tried += sum(len(elsewhere_than(addresses[name], places).keys() & GUARDED) for name in VISITORS)
    return allowed, tried - allowed


def outcomes_of_argocd() -> tuple[int, int]:
    """The same of Argo CD's own pods; the two that no policy holds for are not counted."""
    addresses = {name: f"address of {name}" for name in of_argocd.PODS}
    places = of_argocd.places_of(addresses, API_PORT)
    confined = of_argocd.PATHS.keys() & addresses.keys()
    allowed = sum(len(of_argocd.PATHS[name]) for name in confined)
    return allowed, sum(len(elsewhere_than(addresses[name], places)) for name in confined) - allowed


def test_page_when_it_counts_connections_then_they_are_those_that_are_tried() -> None:
    page = " ".join(PAGE.read_text().split())
    for allowed, refused in (outcomes_of_node(), outcomes_of_argocd()):
        assert f"{allowed:,} connections are let through, {refused:,} get no answer" in page
