"""Two stacks never share a port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from devstack.stack.links import port_names
from devstack.stack.ports import BLOCK_SIZE, NAMES, reserve
from services.common.errors import Unavailable


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # Where no real stack reserves: it would not know of the locks in this cache.
    monkeypatch.setattr("devstack.stack.ports.BLOCKS", range(14_000, 15_000, BLOCK_SIZE))


def test_ports_when_reserved_then_each_name_has_one_of_its_own() -> None:
    with reserve() as ports:
        assert set(ports) == set(NAMES)
        assert len(set(ports.values())) == len(NAMES)


def test_ports_when_reserved_twice_at_a_time_then_they_are_disjoint() -> None:
    with reserve() as one, reserve() as other:
        assert set(one.values()).isdisjoint(other.values())


def test_ports_when_preferred_and_free_then_they_are_the_same_again() -> None:
    with reserve() as first:
        pass
    with reserve(preferred=min(first.values())) as again:
        assert again == first


def test_ports_when_somebody_listens_there_then_others_are_taken() -> None:
    with reserve() as ports:
        taken = ports["kafka"]
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", taken))
        stranger.listen()
        with reserve(preferred=min(ports.values())) as others:
            assert taken not in others.values()


def test_ports_when_all_are_taken_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with reserve() as ports:
        first = min(ports.values())
        monkeypatch.setattr("devstack.stack.ports.BLOCKS", range(first, first + BLOCK_SIZE, BLOCK_SIZE))
        with pytest.raises(Unavailable, match="free ports between"), reserve():
            pass


def test_ports_when_a_stack_has_links_then_they_fit_into_a_second_block() -> None:
    with reserve() as own, reserve(names=port_names()) as links:
        assert set(own.values()).isdisjoint(links.values())
        assert len(set(links.values())) == len(port_names()) <= BLOCK_SIZE
