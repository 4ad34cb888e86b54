"""What the metrics tell during a drill that alerts are about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from prometheus_client.parser import text_string_to_metric_families

from devstack.harness.hosted import HostedStack
from tests.e2e.test_telemetry import get

MEASURED_SECONDS = 180
"""Within which a planner measures again, of a busy machine."""


def measured(stack: HostedStack, service: str, metric: str, **labels: str) -> float:
    """The sum of what the process tells of ``metric`` under these labels; 0 if it tells none."""
    families = text_string_to_metric_families(get(stack, service, "/metrics").text)
    samples = [sample for family in families for sample in family.samples if sample.name == metric]
    return sum(sample.value for sample in samples if _has(sample.labels, labels))


def _has(told: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= told.items()


async def until_measured(stack: HostedStack, service: str, metric: str, is_wanted: Callable[[float], bool]) -> None:
    """Wait until the process tells such a value."""
    deadline = time.monotonic() + MEASURED_SECONDS
    while not is_wanted(value := await asyncio.to_thread(measured, stack, service, metric)):
        assert time.monotonic() < deadline, f"{metric} of {service} is {value}"
        await asyncio.sleep(0.2)
