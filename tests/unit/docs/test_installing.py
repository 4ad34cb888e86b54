"""What k8s/README.md says of Connect's worker, which is brought and not typed, is what every stack's worker has."""

from __future__ import annotations

import re

from devstack.components.java import properties
from devstack.paths import COMPOSE
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


def test_worker_when_the_readme_lists_its_variables_then_they_are_all_that_it_and_the_connector_read() -> None:
    rows = re.findall(r"^\| ((?:`GITOPS_\w+`(?:, )?)+) \|", README, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"\w+", row)}
    assert listed == {name for file in (DEFINITION, WORKER) for name in VARIABLE.findall(file.read_text())}
