"""Syncs that are asked for: two agents, one of them killed, and a simulator that plays Argo CD."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from devstack.argocd_simulator.simulator import Pace, Simulator
from services.agent.objects.live_operation import RUN_INFO
from services.agent.objects.managed_kinds import CASCADE_FINALIZER
from services.agent.reconcile.sync_steps import DELETED, SYNC_SEQUENCE
from services.common.kubernetes import APPLICATION, Changed, KubeClient, Seen, reflect
from services.common.messages import Removed, SyncMoved
from services.common.messages.compiled import AT_ONCE, RELEASE
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, application, row, sync_operation

ENDED = {"Succeeded", "Failed", "Error", "Terminated"}


class Starts:
    """Counts how often each Application was given an operation of ours: a watch shows every version of it."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self._asked: set[str] = set()

    async def count(self, kube: KubeClient, namespace: str) -> None:
        async for event in reflect(kube, APPLICATION, namespace):
            if isinstance(event, Seen | Changed):
                self._see(event.object)

    def _see(self, manifest: dict[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        if "operation" not in manifest:
            self._asked.discard(name)
        elif name not in self._asked:
            self._asked.add(name)
            self.of[name] += 1


@pytest.fixture
async def starts(kube: KubeClient, namespace: str) -> AsyncIterator[Starts]:
    """With a simulator beside it."""
    counting = Starts()
    simulator = Simulator(kube, lambda place: reflect(kube, APPLICATION, place), [namespace], Pace(sync_seconds=0.1))
    tasks = [asyncio.create_task(counting.count(kube, namespace)), asyncio.create_task(simulator.run())]
    yield counting
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def manual(name: str, namespace: str, path: str = "manifests") -> dict[str, Any]:
    made = application(name, namespace, path=path)
    made["spec"]["syncPolicy"] = {"syncOptions": ["CreateNamespace=true"]}
    return row(INSTANCE, made)


def sync(name: str, namespace: str, **how: Any) -> dict[str, Any]:
    return row(INSTANCE, sync_operation(name, namespace, f"run-{name}", **how), kind="SyncOperation")


def phases(observations: Observations, name: str) -> list[str]:
    return [event.phase for event in observations.of(name) if isinstance(event, SyncMoved)]


async def eventually(condition: Any, within: float = 60) -> None:
    """``until`` in a thread: the simulator needs the loop."""
    await asyncio.to_thread(until, condition, within)


async def test_syncs_when_the_agent_that_starts_them_is_killed_then_each_is_started_exactly_once(
    start_agent: StartAgent,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
    starts: Starts,
) -> None:
    agents = [await asyncio.to_thread(start_agent, {INSTANCE: namespace}) for _ in range(2)]
    names = [f"app-{number}" for number in range(60)]
    await eventually(lambda: any(agent.instances == [INSTANCE] for agent in agents) and agents[1].is_ready)
    victim = next(agent for agent in agents if agent.instances == [INSTANCE])

    engine_log.write(*(manual(name, namespace) for name in names))
    engine_log.write(*(sync(name, namespace, revision="a" * 40) for name in names))
    await eventually(lambda: len(starts.of) > 5)
    victim.kill()
    await eventually(lambda: all(ENDED & set(phases(observations, name)) for name in names))

    assert starts.of == Counter(dict.fromkeys(names, 1))
    assert {phases(observations, name)[-1] for name in names} == {"Succeeded"}
    found = (await kube.get_object(APPLICATION, namespace, "app-0"))["status"]["operationState"]
    assert found["operation"]["info"] == [{"name": "gitops-sync-run", "value": "run-app-0"}]
    assert found["operation"]["sync"]["syncOptions"] == ["CreateNamespace=true"]
    assert found["syncResult"]["revision"] == "a" * 40


async def test_sync_when_its_run_is_to_end_then_argo_cd_ends_it_and_a_repair_leaves_it_alone(
    start_agent: StartAgent,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
    starts: Starts,
) -> None:
    await asyncio.to_thread(start_agent, {INSTANCE: namespace})
    engine_log.write(manual("app", namespace, "simulate/slow-sync"), sync("app", namespace))
    await eventually(lambda: phases(observations, "app") == ["Running"])
    await kube.patch_object(
        APPLICATION, namespace, "app", {"spec": {"source": {"targetRevision": "evil"}}}, field_manager="kubectl-edit"
    )
    await eventually(lambda: any(getattr(event, "drift_repaired", False) for event in observations.of("app")))
    found = await kube.get_object(APPLICATION, namespace, "app")
    assert found["operation"]["info"] == [{"name": "gitops-sync-run", "value": "run-app"}]
    assert found["metadata"]["annotations"]["managed-gitops.redhat.com/sync-sequence"] == "1"

    engine_log.write(sync("app", namespace, state="Terminated"))
    await eventually(lambda: phases(observations, "app")[-1] in ENDED)
    [*_, last] = [event for event in observations.of("app") if isinstance(event, SyncMoved)]
    assert (last.phase, last.message) == ("Failed", "Operation terminated")
    assert starts.of["app"] == 1


async def test_application_when_given_up_by_a_second_agent_then_the_run_that_the_first_gave_it_is_told_of_before(
    start_agent: StartAgent, kube: KubeClient, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    """The first one had not told anything of it."""
    made = application("app", namespace)
    operation = {"sync": {}, "info": [{"name": RUN_INFO, "value": "run-app"}]}
    given = made["metadata"] | {"annotations": {SYNC_SEQUENCE: "1"}, "finalizers": [CASCADE_FINALIZER]}
    await kube.create_object(
        APPLICATION, made | {"metadata": given, "operation": operation}, field_manager="the first agent"
    )
    engine_log.write(sync("app", namespace), row(INSTANCE, made | {RELEASE: True, AT_ONCE: True}))
    await asyncio.to_thread(start_agent, {INSTANCE: namespace})
    await eventually(lambda: Removed(forced=False) in observations.of("app"))
    first, second, *_ = [event for event in observations.of("app") if isinstance(event, SyncMoved | Removed)]
    assert (first, second) == (SyncMoved("run-app", "Running", "", "", "", ""), Removed(forced=False))


async def test_running_sync_when_its_application_is_deleted_while_nobody_looks_then_it_is_not_started_anew(
    start_agent: StartAgent,
    kube: KubeClient,
    namespace: str,
    engine_log: EngineLog,
    observations: Observations,
    starts: Starts,
) -> None:
    first = await asyncio.to_thread(start_agent, {INSTANCE: namespace})
    engine_log.write(manual("app", namespace, "simulate/slow-sync"), sync("app", namespace))
    await eventually(lambda: phases(observations, "app") == ["Running"])
    await asyncio.to_thread(first.kill)
    await kube.delete_object(APPLICATION, namespace, "app")
    engine_log.write(sync("app", namespace, begun=True))
    await asyncio.to_thread(start_agent, {INSTANCE: namespace})

    await eventually(lambda: phases(observations, "app")[-1] in ENDED)
    [*_, last] = [event for event in observations.of("app") if isinstance(event, SyncMoved)]
    assert (last.phase, last.message) == ("Error", DELETED)
    made_anew = await kube.get_object(APPLICATION, namespace, "app")
    assert "operation" not in made_anew
    assert starts.of["app"] == 1
