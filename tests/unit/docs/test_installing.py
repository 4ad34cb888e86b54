"""What k8s/README.md says of what is brought and not typed is so: Connect's worker, the repository of the heartbeat."""

from __future__ import annotations

import re

import yaml

from devstack.components.java import properties
from devstack.paths import COMPOSE, ROOT
from services.cli.installation.connector import DEFINITION
from tests.component.k8s.readme import README, blocks

WORKER = COMPOSE / "connect" / "worker.properties"
OWN = ("config.providers", "connector.client.")
"""Beginnings of what a worker does not have by itself, and `connector.json` needs."""
VARIABLE = re.compile(r"\$\{env:(GITOPS_\w+)\}")


def test_worker_when_the_readme_shows_its_properties_then_they_are_all_that_the_connector_needs() -> None:
    (section,) = blocks("properties").values()
    shown = dict(line.split("=", 1) for line in section)
    assert shown == {name: value for name, value in properties(WORKER).items() if name.startswith(OWN)}


def test_overlay_when_read_then_its_agents_have_a_heartbeat_and_the_readme_says_of_what() -> None:
    example = yaml.safe_load((ROOT / "k8s" / "overlays" / "example" / "kustomization.yaml").read_text())
    (agent,) = [each["literals"] for each in example["configMapGenerator"] if each["name"] == "agent"]
    given = dict(each.split("=", 1) for each in agent)
    assert given["HEARTBEAT_REPOSITORY"].startswith("https://")
    _, section = README.split("## What to decide in an overlay")
    for setting in ("HEARTBEAT_REPOSITORY", "HEARTBEAT_PATH", "HEARTBEAT_REVISION"):
        assert f"`{setting}`" in section


def test_worker_when_the_readme_lists_its_variables_then_they_are_all_that_it_and_the_connector_read() -> None:
    rows = re.findall(r"^\| ((?:`GITOPS_\w+`(?:, )?)+) \|", README, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"\w+", row)}
    assert listed == {name for file in (DEFINITION, WORKER) for name in VARIABLE.findall(file.read_text())}
