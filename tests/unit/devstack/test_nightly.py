"""What takes too long for each change is run every night."""

from __future__ import annotations

import re

from devstack.paths import ROOT


def targets_of(script: str) -> set[str]:
    return set(re.findall(r"^make (\S+)", (ROOT / ".ci" / script).read_text(), re.MULTILINE))


def test_night_when_it_comes_then_all_runs_that_no_change_waits_for() -> None:
    assert targets_of("nightly") == {"long", "search", "years", "containers", "node", "chaos"}
    assert targets_of("nightly").isdisjoint(targets_of("run"))
    assert (ROOT / ".ci" / "nightly").stat().st_mode & 0o111, "it can be run"


def test_night_when_it_comes_then_measurements_that_have_bounds_are_made() -> None:
    script = (ROOT / ".ci" / "nightly").read_text()
    measured = re.findall(r"^\.venv/bin/python -m bench\.(\w+(?: --part \w+)?)", script, re.MULTILINE)
    assert measured == ["failover", "fleet --part placement", "fleet --part planner", "fleet --part drain"]


def test_night_when_it_runs_a_target_then_the_makefile_has_it() -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets_of("nightly") <= known
