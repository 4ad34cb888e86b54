"""How much of what Argo CD says is reported: each report is at most one write of a user's resource."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from devstack.argocd_simulator.chatter import WRITES_PER_SYNC
from devstack.argocd_simulator.simulator import Pace, Simulator
from services.common.kubernetes import APPLICATION, Changed, KubeClient, reflect
from services.common.messages import StatusReported
from tests.component.agent.conftest import INSTANCE, until
from tests.component.agent.engine_log import EngineLog, Observations, application, row
from tests.component.agent.worker import Worker

REPORTS_PER_SYNC = 3
COMPARISONS = 10


@pytest.fixture(autouse=True)
async def argocd(kube: KubeClient, namespace: str) -> AsyncIterator[None]:
    """Says all that Argo CD says, as slowly as it does on a busy machine."""
    pace = Pace(sync_seconds=0.7, writes_per_sync=WRITES_PER_SYNC)
    made = Simulator(kube, lambda place: reflect(kube, APPLICATION, place), [namespace], pace)
    running = asyncio.create_task(made.run())
    yield
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def said(kube: KubeClient, namespace: str) -> AsyncIterator[set[str]]:
    """The versions of the Application, one for each write."""
    versions: set[str] = set()

    async def follow() -> None:
        async for event in reflect(kube, APPLICATION, namespace):
            if isinstance(event, Changed):
                versions.add(event.object["metadata"]["resourceVersion"])

    following = asyncio.create_task(follow())
    yield versions
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_status_when_argocd_syncs_then_a_third_of_what_it_says_is_reported_and_of_a_comparison_nothing(
    agent: Worker, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations, said: set[str]
) -> None:
    for revision in ("v1", "v2"):
        before, said_before = len(reported(observations)), len(said)
        engine_log.write(row(INSTANCE, application("app", namespace, targetRevision=revision)))
        await asyncio.to_thread(until, lambda revision=revision: is_synced(observations, revision))
        assert len(said) - said_before >= WRITES_PER_SYNC
        assert 1 <= len(reported(observations)) - before <= REPORTS_PER_SYNC
    at_rest = len(reported(observations))
    for second in range(COMPARISONS):
        await write(kube, namespace, {"reconciledAt": f"2026-01-01T00:00:{second:02}Z"})
    await write(kube, namespace, {"health": {"status": "Degraded"}})
    await asyncio.to_thread(until, lambda: len(reported(observations)) > at_rest)
    assert [status["health"]["status"] for status in reported(observations)[at_rest:]] == ["Degraded"]


async def write(kube: KubeClient, namespace: str, status: dict[str, object]) -> None:
    await kube.patch_object(APPLICATION, namespace, "app", {"status": status}, field_manager="argocd")


def reported(observations: Observations) -> list[dict[str, dict[str, object]]]:
    return [orjson.loads(event.status) for event in observations.of("app") if isinstance(event, StatusReported)]


def is_synced(observations: Observations, revision: str) -> bool:
    """The last report says so."""
    last: dict[str, dict[str, object]] = (reported(observations) or [{}])[-1]
    sync = last.get("sync", {})
    compared = sync.get("comparedTo")
    source = compared["source"] if isinstance(compared, dict) else {}
    return (sync.get("status"), source.get("targetRevision")) == ("Synced", revision)
