"""What a Docker engine changes of the machine's network, and does not undo when it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from devstack.stack.node_addresses import NODE_BRIDGE
from devstack.toolchain.processes import output_of

TABLES = ("filter", "nat")
CHAINS = "DOCKER"
"""What the names of an engine's chains begin with."""
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
"""An engine that finds it off puts it on, and has the filter drop what is forwarded and not its own."""
PROCESSES = Path("/proc")


@contextmanager
def left_as_found(bridge: str) -> Iterator[None]:
    """Have all of it be as before once the block has ended, and with it an engine with that bridge.

    What engines share stays if it was there before, as its owner may have added to it, and for as long as another one
    runs; forwarding stays for as long as a node needs it.
    """
    _remove_rules_about(bridge)  # of a run that was killed
    forwarding, policy, chains = FORWARDING.read_text(), _policy(), {table: _chains(table) for table in TABLES}
    try:
        yield
    finally:
        _remove_rules_about(bridge)
        if not _has_engine():
            for table, before in chains.items():
                _remove_chains(table, _chains(table) - before)
            _iptables("filter", "--policy", "FORWARD", policy)
            if not has_link(NODE_BRIDGE):
                FORWARDING.write_text(forwarding)


def has_link(name: str) -> bool:
    """Whether the machine has an interface of that name."""
    return name in {link["ifname"] for link in json.loads(output_of("ip", "-json", "link"))}


def _remove_rules_about(bridge: str) -> None:
    for table in TABLES:
        for rule in _rules(table):
            if bridge in rule:
                _iptables(table, "--delete", *rule)


def _remove_chains(table: str, chains: Set[str]) -> None:
    """And first what is in them, and all that leads to them."""
    for rule in _rules(table):
        if chains & {rule[0], rule[-1]}:
            _iptables(table, "--delete", *rule)
    for chain in chains:
        _iptables(table, "--delete-chain", chain)


def _chains(table: str) -> set[str]:
    """An engine's."""
    return {words[1] for words in _listed(table) if words[0] == "-N" and words[1].startswith(CHAINS)}


def _rules(table: str) -> list[list[str]]:
    """Each begins with its chain and ends with what is done."""
    return [words for option, *words in _listed(table) if option == "-A"]


def _policy() -> str:
    """Of what is forwarded."""
    (policy,) = (words[2] for words in _listed("filter") if words[:2] == ["-P", "FORWARD"])
    return policy


def _listed(table: str) -> list[list[str]]:
    return [line.split() for line in _iptables(table, "--list-rules").splitlines()]


def _iptables(table: str, *words: str) -> str:
    return output_of("iptables", "--wait", "--table", table, *words)


def _has_engine() -> bool:
    """Whether one runs whose network this is."""
    return any(_is_engine(process) for process in PROCESSES.glob("[0-9]*"))


def _is_engine(process: Path) -> bool:
    with suppress(OSError):  # it has ended meanwhile
        own = os.readlink("/proc/self/ns/net")
        return (process / "comm").read_text().strip() == "dockerd" and os.readlink(process / "ns" / "net") == own
    return False
