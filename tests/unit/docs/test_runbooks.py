"""Each loss has a runbook: how it shows, what to type, how to see that it worked; and a test that types just that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.harness.operator import commands_of
from devstack.paths import DOCS, ROOT

OPERATIONS = DOCS / "operations"
ROW = re.compile(r"^\| \[[^]]+\]\((?P<page>[\w-]+\.md)\) \| (?P<seconds>\d+) s \| `(?P<test>[^`]+)` \|$", re.MULTILINE)
DRILLS = [found.groupdict() for found in ROW.finditer((OPERATIONS / "drills.md").read_text())]
PAGES = sorted({drill["page"] for drill in DRILLS})
FOLLOWED = re.compile(r"\.follow_runbook,?\(?\s*\"([\w-]+\.md)\"")
(GROUP,) = yaml.safe_load((ROOT / "k8s" / "alerts" / "rules.yaml").read_text())["groups"]
ALERTS: list[dict[str, Any]] = GROUP["rules"]


def test_drills_when_compared_with_the_tests_then_each_runbook_that_these_follow_has_its_figure() -> None:
    folders = ("drills", "engine_clusters", "argocd", "chaos")
    files = [file for folder in folders for file in (ROOT / "tests" / folder).glob("test_*.py")]
    assert {page for file in files for page in FOLLOWED.findall(file.read_text())} == {*PAGES}


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill["test"])
def test_drill_when_the_page_names_it_then_it_is_there_and_follows_that_runbook(drill: dict[str, str]) -> None:
    file, _, test = drill["test"].partition("::")
    text = (ROOT / "tests" / file).read_text()
    assert f"def {test.partition('[')[0]}(" in text
    assert drill["page"] in FOLLOWED.findall(text)


@pytest.mark.parametrize("page", PAGES)
def test_runbook_when_read_then_it_has_symptom_alert_commands_and_how_to_see_that_it_worked(page: str) -> None:
    text = (OPERATIONS / page).read_text()
    assert "**Symptom**" in text
    assert [rule for rule in ALERTS if f"`{rule['alert']}`" in text]
    assert commands_of(page)
    assert "**It worked** when" in text
    assert "(drills.md)" in text, "how long it takes"


def test_runbooks_when_a_page_lists_them_then_each_that_has_a_drill_is_among_them() -> None:
    listed = {Path(target).name for target in re.findall(r"\]\(([\w-]+\.md)", (OPERATIONS / "README.md").read_text())}
    assert {*PAGES} <= listed
