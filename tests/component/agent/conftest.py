"""Agents as processes, between a topic that plays the connector and a real API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from services.common.kafka import load_topics
from services.common.sealing import generate_key, write_keys
from tests.component.agent.engine_log import EngineLog, Observations
from tests.component.agent.fleet_log import FleetLog
from tests.component.agent.worker import AGENT, Worker
from tests.unit.agent.instances_of_fleet import HERE, instance_row

INSTANCE = "argocd"
StartAgent = Callable[..., Worker]


@pytest.fixture(scope="session")
def partitions() -> int:
    rows, _ = load_topics(engine_cluster="any")
    return rows.partitions


@pytest.fixture
def engine_log(
    kafka_bootstrap: str, registry_url: str, topic_factory: Callable[[str, int], str], partitions: int
) -> EngineLog:
    return EngineLog(kafka_bootstrap, registry_url, topic_factory("engine", partitions), partitions)


@pytest.fixture
def fleet_log(kafka_bootstrap: str, registry_url: str, topic_factory: Callable[[str, int], str]) -> FleetLog:
    return FleetLog(kafka_bootstrap, registry_url, topic_factory("fleet", 1))


@pytest.fixture
def observations(
    kafka_bootstrap: str, registry_url: str, topic_factory: Callable[[str, int], str]
) -> Iterator[Observations]:
    topic = topic_factory("observations", 12)
    reader = Observations(kafka_bootstrap, registry_url, topic)
    yield reader
    reader.close()


@pytest.fixture(scope="session")
def sealing_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sealing") / "private.json"
    key = generate_key()
    write_keys(path, {str(key.kid): key}, private=True)
    return path


@pytest.fixture
def fleet_environment(kafka_bootstrap: str, registry_url: str, fleet_log: FleetLog) -> dict[str, str]:
    return {
        "KAFKA_BOOTSTRAP_SERVERS": kafka_bootstrap,
        "SCHEMA_REGISTRY_URL": registry_url,
        "FLEET_TOPIC": fleet_log.topic,
    }


@pytest.fixture
def engine_environment(kubeconfig: Path, sealing_keys: Path) -> dict[str, str]:
    return {"KUBECONFIG": str(kubeconfig), "SEALING_PRIVATE_KEYS": str(sealing_keys)}


@pytest.fixture
def start_agent(
    fleet_environment: dict[str, str],
    engine_environment: dict[str, str],
    fleet_log: FleetLog,
    engine_log: EngineLog,
    observations: Observations,
    tmp_path: Path,
) -> Iterator[StartAgent]:
    """Starts an agent of the test's own group, which has instances in these namespaces; all are ended afterwards."""
    started: list[Worker] = []

    def start(namespaces: Mapping[str, str], module: str = AGENT, **settings: str) -> Worker:
        fleet_log.write(*(instance_row(name, namespace=namespace) for name, namespace in namespaces.items()))
        own = {
            "ENGINE_TOPIC": engine_log.topic,
            "OBSERVATIONS_TOPIC": observations.topic,
            "AGENT_GROUP": engine_log.group_of(settings.get("ENGINE_CLUSTER", HERE)),
            "ACCEPT_UNSEEN_ENGINES": "true",
            "ACCEPT_UNISOLATED_ENGINES": "true",
        }
        environment = fleet_environment | engine_environment | own | settings
        worker = Worker(environment, tmp_path / f"agent-{len(started)}.log", module)
        started.append(worker)
        until(lambda: worker.is_ready, within=120)
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def agent(start_agent: StartAgent, namespace: str) -> Worker:
    """One agent that serves the test's namespace; it waits for deletions longer than any test takes."""
    return start_agent({INSTANCE: namespace})


def until(condition: Callable[[], object], within: float = 90) -> float:
    """Wait for ``condition``; returns how long that took, in seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within, f"not so within {within} s"
        time.sleep(0.02)
    return time.monotonic() - began
