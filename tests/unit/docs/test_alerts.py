"""The rules for Prometheus that k8s/alerts ships ask for metrics that there are, and for labels that these have."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from devstack.paths import DOCS, ROOT
from services.common.telemetry import metrics

(GROUP,) = yaml.safe_load((ROOT / "k8s" / "alerts" / "rules.yaml").read_text())["groups"]
RULES: list[dict[str, Any]] = GROUP["rules"]
DECLARED = {
    name: set(item._labelnames)
    for item in vars(metrics).values()
    if isinstance(item, metrics.Counter | metrics.Gauge)
    for name in (item._name, f"{item._name}_total")
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_when_evaluated_then_its_metric_has_the_labels_that_it_groups_by(rule: dict[str, Any]) -> None:
    metrics = {*re.findall(r"\bgitops_\w+", rule["expr"])}
    grouped = re.findall(r"by \(([\w, ]+)\)", rule["expr"])
    # Prometheus keeps `instance` for what it scrapes, and renames a label of ours.
    labels = {label.removeprefix("exported_") for labels in grouped for label in labels.split(", ")}
    assert labels <= {label for name in metrics for label in DECLARED[name]}
    assert all(f"`{name}" in (DOCS / "metrics.md").read_text() for name in metrics)


def test_alerts_when_read_then_each_says_what_it_means_and_how_bad_it_is() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    assert {rule["labels"]["severity"] for rule in RULES} <= {"warning", "critical"}
    assert all(rule["annotations"]["summary"].endswith(".") for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_when_it_comes_then_its_runbook_is_there_and_names_it(rule: dict[str, Any]) -> None:
    assert f"`{rule['alert']}`" in (ROOT / rule["annotations"]["runbook"]).read_text()


def test_readiness_when_no_process_of_a_service_tells_anything_then_that_is_an_alert_too() -> None:
    (rule,) = [rule for rule in RULES if rule["alert"] == "GitOpsNotReady"]
    assert set(re.findall(r'absent\(gitops_ready\{service="(\w+)"\}\)', rule["expr"])) == {
        "watcher",
        "planner",
        "agent",
    }
