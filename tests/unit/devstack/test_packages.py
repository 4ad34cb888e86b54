"""Before an engine of containers or a node is started, what it takes is there, is installed, or is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from devstack.toolchain import packages
from devstack.toolchain.packages import ENGINE, NODE
from services.common.errors import NoPermission, Unavailable


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Programs that the machine has; to be filled."""
    programs: set[str] = set()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name in programs else None)
    return programs


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Commands that were run."""
    commands: list[Sequence[str]] = []
    monkeypatch.setattr(packages, "run_checked", lambda command, _: commands.append(command))
    return commands


def test_engine_when_asked_for_by_another_than_root_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoPermission, match="run this as root"):
        packages.install(ENGINE)


def test_programs_when_they_are_missing_and_cannot_be_installed_then_their_packages_are_named(
    installed: set[str],
) -> None:
    installed |= {"ip", "iptables"}
    with pytest.raises(Unavailable, match=r"needs debootstrap, docker\.io \("):
        packages.install(ENGINE)


def test_programs_when_they_are_missing_then_these_alone_are_installed(
    installed: set[str], ran: list[Sequence[str]]
) -> None:
    installed |= {"ip", "iptables", "docker", "debootstrap", "apt-get"}
    packages.install(ENGINE)
    assert [command[1] for command in ran] == ["update", "install"]
    assert [word for word in ran[1][2:] if not word.startswith("-")] == ["docker.io"]


def test_programs_when_their_packages_cannot_be_had_then_one_line_says_which_and_why(
    installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: Sequence[str], _: object) -> None:
        raise Unavailable(f"{command[0]} … failed: Reading package lists...\nE: no network")

    monkeypatch.setattr(packages, "run_checked", fail)
    installed |= {*ENGINE.packages, "apt-get"} - {"debootstrap"}
    with pytest.raises(Unavailable) as raised:
        packages.install(ENGINE)
    assert str(raised.value) == "a Docker engine needs debootstrap, which cannot be installed: E: no network"


def test_programs_when_all_are_there_then_nothing_is_run(installed: set[str], ran: list[Sequence[str]]) -> None:
    installed.update(ENGINE.packages)
    packages.install(ENGINE)
    assert ran == []


def test_node_when_programs_are_missing_then_their_packages_are_named(
    installed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: True)
    installed |= NODE.packages.keys() - {"ctr", "containerd", "nft"}
    with pytest.raises(Unavailable, match="not here: containerd, nftables; run 'make packages'"):
        packages.require(NODE)


def test_node_when_started_by_another_than_root_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NoPermission, match="a node is started by root alone"):
        packages.require(NODE)


@pytest.mark.parametrize(
    ("absent", "named"),
    [("/sys/fs/cgroup/memory/cgroup.procs", "cgroups of version 1"), ("bridge-nf-call-iptables", "br_netfilter")],
)
def test_node_when_the_kernel_lacks_something_then_one_line_names_it(
    installed: set[str], monkeypatch: pytest.MonkeyPatch, absent: str, named: str
) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: not str(path).endswith(absent))
    installed.update(NODE.packages)
    for needing in (packages.require, packages.install):
        with pytest.raises(Unavailable, match=f"a node needs of the kernel what is not here: [^,]*{named}[^,]*$"):
            needing(NODE)


def test_node_when_all_is_there_then_nothing_is_said(installed: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: True)
    installed.update(NODE.packages)
    packages.require(NODE)
