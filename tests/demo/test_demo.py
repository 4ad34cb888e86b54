"""The demo does what README.md says, and says itself what it did: it fails if any of it does not come about."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from devstack.demo.argocds import OLD_ARGOCD, version
from devstack.paths import ROOT
from devstack.toolchain.install import NEWEST_ARGOCD

TOLD_SECONDS = 600
DEPLOYED, SHOWN, BOTH = r" +· +\d+ +· +", r" +· +· +\d+ +", r" +· +\d+ +\d+ +"
"""Cells of the table of changes that tell how long each took to be deployed or gone, to be shown, and both."""
OF_THE_SHOP = (
    rf"team-shop/prod +claim{SHOWN}Bound",
    rf"team-shop/v1 +dev, staging{BOTH}dev: Success, staging: Success",
    rf"team-shop/v1 +prod, by hand{BOTH}prod: Success",
    rf"team-shop/change-17 +claim{SHOWN}Bound",
    rf"team-shop/change-17 +preview{DEPLOYED}",
    rf"team-shop/change-17 +its time is over{DEPLOYED}gone with its claim",
    rf"team-shop/prod +delete{DEPLOYED}gone",
)
"""Rows of the act in which one is promoted, some of them at the same time as others."""


@pytest.mark.long
def test_demo_when_it_goes_to_no_terminal_then_every_act_comes_true_and_is_told_in_plain_lines() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "services.cli", "demo"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TOLD_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr
    old, new = version(OLD_ARGOCD), version(NEWEST_ARGOCD)
    in_order = (
        f"The fleet begins with one instance: Argo CD {old}",
        "team-shop's images go to dev and staging by themselves",
        "The fleet grows: an instance is added, and tenants spread",
        "canary-1 is accepting",
        "Its Argo CD breaks: found, evacuated, healed",
        "canary-1 is Down HeartbeatLost",
        "canary-1: acting Evacuate",
        "canary-1 is no longer cordoned",
        f"Argo CD {new} comes to the fleet: ring canary first, then general",
        "  canary-1 is retired",  # not default-canary-1, which was ordered in its place and given up
        "general-1 is retired",
        f"rollout of {new}: done",
        "A tenant moves to an Argo CD of the other engine cluster, north",
        "north-1 is accepting",
        "→ north-1",
        "Everything is deleted",
        "new Snapshot → deployed",
        "preview's end → nothing left",
        "commit, moved → deployed",
        "Summary of the fleet",
        "team-coral: moved to cluster north",
        "gaps in tenants' status, workloads touched",
    )
    places = [ended.stdout.find(line) for line in in_order]
    assert [line for line, place in zip(in_order, places, strict=True) if place == -1] == []
    assert places == sorted(places)
    assert [row for row in OF_THE_SHOP if not re.search(row, ended.stdout)] == []
    assert "\x1b" not in ended.stdout
