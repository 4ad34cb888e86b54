"""Which instances an agent serves is what gitops.fleet says, while it runs."""

from __future__ import annotations

import uuid

import pytest

from services.common.kubernetes import APPLICATION, NAMESPACE, KubeClient
from services.common.messages import Applied, Failed
from tests.component.agent.conftest import INSTANCE, StartAgent, until
from tests.component.agent.engine_log import EngineLog, Observations, application, row
from tests.component.agent.fleet_log import FleetLog
from tests.component.agent.worker import Worker
from tests.unit.agent.instances_of_fleet import HERE, instance_row

OTHER = "other-cluster"


@pytest.fixture
def agent(start_agent: StartAgent) -> Worker:
    """An agent that began before there was any instance."""
    return start_agent({})


async def test_instance_when_it_is_added_while_an_agent_runs_then_it_is_served_without_a_restart(
    agent: Worker,
    kube: KubeClient,
    namespace: str,
    fleet_log: FleetLog,
    engine_log: EngineLog,
    observations: Observations,
) -> None:
    assert agent.instances == []
    fleet_log.write(instance_row(INSTANCE, namespace=namespace))
    each = row(INSTANCE, application("app", namespace))
    engine_log.write(each)
    until(lambda: observations.has("app", Applied(each["digest"])))
    assert [event for event in observations.of("app") if isinstance(event, Failed)] == []
    assert (await kube.get_object(APPLICATION, namespace, "app"))["spec"]["project"] == "app-project-a"
    assert agent.is_ready


async def test_instance_when_it_is_retired_while_an_agent_runs_then_nothing_is_done_for_it_any_more(
    start_agent: StartAgent, namespace: str, fleet_log: FleetLog, engine_log: EngineLog, observations: Observations
) -> None:
    agent = start_agent({INSTANCE: namespace})
    fleet_log.write(instance_row(INSTANCE, namespace=namespace, state="retired"))
    until(lambda: agent.instances == [])
    engine_log.write(row(INSTANCE, application("app", namespace)))
    until(lambda: observations.of("app"))
    (event,) = observations.of("app")
    assert "it is retired" in event.message


async def test_row_when_nobody_knows_its_instance_then_it_is_refused_and_the_others_go_on(
    start_agent: StartAgent, namespace: str, engine_log: EngineLog, observations: Observations
) -> None:
    start_agent({INSTANCE: namespace})
    each = row(INSTANCE, application("ours", namespace))
    engine_log.write(row("unheard-of", application("nobodys", namespace)), each)
    until(lambda: observations.has("ours", Applied(each["digest"])))
    until(lambda: observations.of("nobodys"))
    (event,) = observations.of("nobodys")
    assert isinstance(event, Failed)
    assert event.permanent
    assert "there is no engine instance unheard-of" in event.message


@pytest.fixture
async def there(kube: KubeClient) -> str:
    """A namespace of the other cluster; here both are one API server."""
    name = f"there-{uuid.uuid4().hex[:12]}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await kube.create_object(NAMESPACE, manifest, field_manager="tests")
    return name


async def test_agents_when_they_are_of_two_clusters_then_each_passes_over_what_is_the_others(
    start_agent: StartAgent,
    namespace: str,
    there: str,
    fleet_log: FleetLog,
    engine_log: EngineLog,
    observations: Observations,
) -> None:
    """Before, each reported the other's rows failed for good, and the planner believed it."""
    fleet_log.write(instance_row("theirs", namespace=there, engine_cluster=OTHER))
    here, other = start_agent({INSTANCE: namespace}), start_agent({}, ENGINE_CLUSTER=OTHER)
    assert (here.instances, other.instances) == ([INSTANCE], ["theirs"])

    rows = [row(INSTANCE, application("ours", namespace)), row("theirs", application("theirs", there))]
    engine_log.write(*rows)
    until(lambda: all(observations.has(each["name"], Applied(each["digest"])) for each in rows))
    until(lambda: all(engine_log.is_committed_by(cluster) for cluster in (HERE, OTHER)))
    assert [each.name for each in observations.read() if isinstance(each.event, Failed)] == []
