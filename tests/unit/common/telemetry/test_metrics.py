from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from devstack.paths import ROOT
from services.common.errors import Permanent, Poison, Retry, Wait
from services.common.kubernetes import Conflict, NotFound
from services.common.telemetry.metrics import Direction, Failure, count_failure, count_messages, failure_of

METRICS = ROOT / "services" / "common" / "telemetry" / "metrics.py"
WORDED = {"ERRORS", "MESSAGES"}
"""Metrics with a label of a closed vocabulary: counted by functions that take no other word."""


def labelled(module: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each ``METRIC.labels(...)`` of a module, with the metric's name."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "labels":
            metric = node.func.value
            yield (metric.attr if isinstance(metric, ast.Attribute) else getattr(metric, "id", "")), node


CALLS = [
    (module, metric, call)
    for module in sorted((ROOT / "services").rglob("*.py"))
    if module != METRICS
    for metric, call in labelled(module)
]


def test_labels_when_of_a_closed_vocabulary_then_only_the_metrics_module_writes_them() -> None:
    assert {metric for _, metric, _ in CALLS} >= {"LAG", "HOP"}
    assert [(module.name, metric) for module, metric, _ in CALLS if metric in WORDED] == []


def test_service_label_when_written_then_it_is_the_packages_constant() -> None:
    literals = [
        (module.name, metric, call.lineno)
        for module, metric, call in CALLS
        if isinstance(call.args[0], ast.Constant)
        if metric != "END_TO_END"  # has no such label
    ]
    assert literals == []


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (Retry("away"), Failure.RETRY),
        (Conflict("changed"), Failure.RETRY),
        (Wait("not yet"), Failure.WAIT),
        (NotFound("gone"), Failure.WAIT),
        (Permanent("never"), Failure.PERMANENT),
        (Poison("what?"), Failure.POISON),
        (ZeroDivisionError(), Failure.DEFECT),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_failure_when_counted_then_its_type_is_what_is_done_about_it(error: Exception, failure: Failure) -> None:
    assert failure_of(error) is failure


def test_failure_when_counted_then_the_label_says_it_in_lower_case() -> None:
    labels = {"service": "a-test", "type": "retry", "operation": "here"}
    count_failure("a-test", Conflict("changed"), "here")
    count_failure("a-test", Failure.RETRY, "here")
    assert REGISTRY.get_sample_value("gitops_errors_total", labels) == 2


def test_message_when_counted_then_the_label_says_which_way_it_went() -> None:
    count_messages("a-test", "a-topic", Direction.RECEIVED)
    labels = {"service": "a-test", "topic": "a-topic", "direction": "received"}
    assert REGISTRY.get_sample_value("gitops_messages_total", labels) == 1
