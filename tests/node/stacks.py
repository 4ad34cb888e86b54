"""Stacks with a node. They must leave nothing on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devstack.harness.hosted import UNHURRIED, HostedStack, hosted
from devstack.node import network, remains
from devstack.node.commands import run
from devstack.toolchain import packages
from services.common.errors import StartupError

OWN = ("gitops-", "kube-proxy", "10.244.", "10.245.", "10.96.")
"""What a node's links, routes and tables of the packet filter have in their names."""


@contextmanager
def stack_with_node(folder: Path, *options: str) -> Iterator[HostedStack]:
    """For as long as the block runs; what is missing for it fails every test with one line."""
    try:
        packages.require(packages.NODE)
    except StartupError as error:
        pytest.fail(str(error), pytrace=False)
    before = traces(folder)
    with hosted(folder, "--pods", *UNHURRIED, *options, output=folder.with_suffix(".out")) as running:
        yield running
    assert traces(folder) == before


def traces(folder: Path) -> dict[str, object]:
    """What there is on the machine of what a node makes or changes; a Docker engine may come meanwhile, and forward."""
    commands = (("ip", "link"), ("ip", "route"), ("nft", "list", "ruleset"))
    lines = [line for argv in commands for line in run(*argv).splitlines()]
    return {
        "network": [line for line in lines if any(part in line for part in OWN)],
        "settings": {name: value for name, value in network.current_settings().items() if name != network.FORWARDING},
        "of pods": remains.found(folder / "node"),
    }
