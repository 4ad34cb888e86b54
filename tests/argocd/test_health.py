"""A real Argo CD that does not do its work is found, told with the reason, and well again when it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from devstack.harness.hosted import HostedStack
from services.agent.objects.reconciliation import REFRESH, time_of
from services.agent.remedies.remedy_actions import REMEDIED
from services.common.kubernetes import APP_PROJECT, APPLICATION, KubeClient
from services.common.messages import Remedy
from tests.argocd.conftest import HEARTBEAT_DEADLINE_SECONDS
from tests.argocd.test_outages import without
from tests.e2e.operators import listed
from tests.e2e.remedy_orders import remedy_ordered

NAME = "gitops-service-heartbeat"
LOST = 4
"""Times its deadline until a heartbeat is lost."""
SLACK_SECONDS = 120.0
"""For three measurements of five, for the report, and for two cores that have other things to do."""
CONTROLLER = "argocd-application-controller-1"


async def until_health(stack: HostedStack, instance: str, health: str, within: float) -> dict[str, Any]:
    """The instance, once it is shown to be so."""
    shown: dict[str, Any] = {}
    try:
        async with asyncio.timeout(within):
            while shown.get("health") != health:
                await asyncio.sleep(0.5)
                shown = next(each for each in await listed(stack, "list") if each["id"] == instance)
    except TimeoutError:
        raise AssertionError(f"{instance} was not {health} within {within} s: {shown}") from None
    return shown


@pytest.fixture
def instance(stack: HostedStack) -> str:
    """The one whose controller is the first."""
    return stack.environment["ENGINE_NAMESPACES"].split(",")[0].partition("=")[0]


@asynccontextmanager
async def frozen(stack: HostedStack, process: str) -> AsyncIterator[None]:
    """Meanwhile the process is there, and does nothing."""
    await asyncio.to_thread(stack.freeze, process)
    try:
        yield
    finally:
        await asyncio.to_thread(stack.thaw, process)


@pytest.mark.long  # it is killed below, and one in a pod hangs in tests/node_argocd/test_hung_controller.py
async def test_instance_when_its_controller_is_frozen_then_it_is_degraded_then_down_and_well_again_once_it_goes_on(
    stack: HostedStack, instance: str
) -> None:
    before = await until_health(stack, instance, "Healthy", 120)
    assert before["heartbeatAt"]
    async with frozen(stack, CONTROLLER):
        late = await until_health(stack, instance, "Degraded", 2 * HEARTBEAT_DEADLINE_SECONDS + SLACK_SECONDS)
        assert late["reason"] == "HeartbeatLate"
        lost = await until_health(stack, instance, "Down", LOST * HEARTBEAT_DEADLINE_SECONDS + SLACK_SECONDS)
        assert lost["reason"] == "HeartbeatLost"
        others = [each for each in await listed(stack, "list") if each["id"] != instance]
        assert {each["health"] for each in others} == {"Healthy"}
    await until_health(stack, instance, "Healthy", SLACK_SECONDS)


async def test_instance_when_its_controller_is_killed_then_it_is_degraded_until_it_runs_again(
    stack: HostedStack, instance: str
) -> None:
    await until_health(stack, instance, "Healthy", 120)
    async with without(stack, CONTROLLER):
        shown = await until_health(stack, instance, "Degraded", 2 * HEARTBEAT_DEADLINE_SECONDS + SLACK_SECONDS)
        assert shown["reason"] == "HeartbeatLate"
    await until_health(stack, instance, "Healthy", 2 * SLACK_SECONDS)


async def test_heartbeat_when_argocd_compares_it_then_it_deploys_nothing_and_shows_no_error(
    stack: HostedStack, instance: str, kube: KubeClient
) -> None:
    shown = await until_health(stack, instance, "Healthy", 120)
    application = await kube.get_object(APPLICATION, shown["namespace"], NAME)
    project = await kube.get_object(APP_PROJECT, shown["namespace"], NAME)
    status = application["status"]
    assert (status["sync"]["status"], status.get("conditions"), status.get("resources")) == ("Synced", None, None)
    assert "operation" not in application
    assert project["spec"]["sourceRepos"] == [application["spec"]["source"]["repoURL"]]


async def test_heartbeat_when_a_refresh_is_ordered_then_argocd_compares_it_without_its_cache_once(
    stack: HostedStack, kube: KubeClient, instance: str
) -> None:
    namespace = (await until_health(stack, instance, "Healthy", 120))["namespace"]
    async with remedy_ordered(stack, instance, Remedy.REFRESH) as number, asyncio.timeout(SLACK_SECONDS):
        while True:
            found = await kube.get_object(APPLICATION, namespace, NAME)
            annotations = found["metadata"].get("annotations", {})
            if annotations.get(REMEDIED) == str(number) and REFRESH not in annotations:
                break
            await asyncio.sleep(0.1)
    compared_at = time_of(found["status"]["reconciledAt"])
    assert compared_at is not None
    assert compared_at >= datetime.fromtimestamp(number // 1000 - 1, UTC)
