"""Agents share the instances; one is killed, or away for an instant."""

from __future__ import annotations

import signal

from services.agent.stream.owned_instances import partition_of_instance
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, application, row
from tests.component.agent.worker import STARTLED_AGENT

FAILOVER_SECONDS = 40
"""Six of session time-out, the rest for a busy machine; measured: seven."""


def instances_apart(partitions: int) -> tuple[str, str]:
    """Two instance ids that two agents never share: round robin gives neighbouring partitions away in turn."""
    ids = [f"argocd-{number}" for number in range(100)]
    low = next(each for each in ids if partition_of_instance(each, partitions) == 0)
    high = next(each for each in ids if partition_of_instance(each, partitions) == 1)
    return low, high


async def test_agent_when_killed_then_the_other_does_its_work_and_a_restart_takes_it_back(
    start_agent: StartAgent, namespace: str, engine_log: EngineLog, observations: Observations, partitions: int
) -> None:
    low, high = instances_apart(partitions)
    namespaces = {low: namespace, high: f"other-{namespace}"}
    first = start_agent(namespaces)
    second = start_agent(namespaces)
    until(lambda: sorted(first.instances + second.instances) == sorted([low, high]))
    victim, survivor = (first, second) if first.instances == [low] else (second, first)

    names = [f"app-{number}" for number in range(200)]
    engine_log.write(*(row(low, application(name, namespace)) for name in names))
    victim.kill()
    engine_log.write(row(low, application("after", namespace)))
    until(lambda: observations.of("after"), within=FAILOVER_SECONDS)
    until(lambda: all(observations.of(name) for name in names))
    assert survivor.instances == sorted([low, high])

    third = start_agent(namespaces)
    until(lambda: len(third.instances) == 1 and len(survivor.instances) == 1 and survivor.is_ready)
    engine_log.write(row(low, application("back", namespace)))
    until(lambda: observations.of("back"))
    assert third.stop() == 0
    assert survivor.stop() == 0


async def test_static_member_when_killed_and_started_again_then_only_it_takes_over_and_at_its_end_the_other_at_once(
    start_agent: StartAgent, namespace: str, engine_log: EngineLog, observations: Observations, partitions: int
) -> None:
    low, high = instances_apart(partitions)
    namespaces, patience = {low: namespace, high: f"other-{namespace}"}, {"SESSION_TIMEOUT_SECONDS": "60"}
    first = start_agent(namespaces, GROUP_INSTANCE_ID="agent-1", **patience)
    second = start_agent(namespaces, GROUP_INSTANCE_ID="agent-2", **patience)
    until(lambda: sorted(first.instances + second.instances) == sorted([low, high]))
    victim, survivor, name = (first, second, "agent-1") if first.instances == [low] else (second, first, "agent-2")
    assignments = survivor.assignments

    victim.kill()
    restarted = start_agent(namespaces, GROUP_INSTANCE_ID=name, **patience)
    engine_log.write(row(low, application("after", namespace)))
    until(lambda: observations.of("after"))
    assert restarted.instances == [low]
    assert survivor.assignments == assignments

    assert restarted.stop() == 0
    until(lambda: survivor.instances == sorted([low, high]))


async def test_agent_when_its_api_server_is_back_before_it_has_left_then_it_has_its_instances_again(
    start_agent: StartAgent, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    agent = start_agent({INSTANCE: namespace}, module=STARTLED_AGENT)
    engine_log.write(row(INSTANCE, application("before", namespace)))
    until(lambda: observations.of("before"))
    agent.process.send_signal(signal.SIGUSR1)
    engine_log.write(row(INSTANCE, application("after", namespace)))
    until(lambda: observations.of("after"))
    assert agent.assignments == [[INSTANCE], [INSTANCE]]
    assert agent.stop() == 0
