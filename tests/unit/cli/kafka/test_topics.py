"""``gitopsctl topics apply`` makes the brokers agree with the declaration, but never moves a key."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from services.cli.kafka import topics
from services.common.errors import InvalidConfiguration
from services.common.kafka import COMMANDS, WORKSPACE, Topic, engine_topic, observations_topic

T = TypeVar("T")

ENGINE = engine_topic("default")
REPORTS = observations_topic("default")
NAMES = (COMMANDS, REPORTS, WORKSPACE, ENGINE)


class Brokers:
    """Topics in memory, with the calls of an AdminClient that change them."""

    def __init__(self, partitions: dict[str, int], brokers: int = 1, replicas: int = 1) -> None:
        self.partitions = dict(partitions)
        self.configured: list[str] = []
        self.settings: dict[str, dict[str, str]] = {}
        self.in_sync: dict[str, str] = {}
        self.replicas = dict.fromkeys(partitions, replicas)
        self._brokers = brokers

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(
            brokers=dict.fromkeys(range(self._brokers)),
            topics={name: SimpleNamespace(partitions=self._parts(name)) for name in self.partitions},
        )

    def describe_configs(self, resources: Iterable[Any]) -> dict[Any, Future[Any]]:
        return {resource: self._done(self._entries(resource.name)) for resource in resources}

    def create_topics(self, new: Iterable[Any]) -> dict[Any, Future[None]]:
        topics = list(new)
        self.replicas |= {topic.topic: topic.replication_factor for topic in topics}
        self.in_sync |= {topic.topic: topic.config["min.insync.replicas"] for topic in topics}
        return {topic.topic: self._set(topic.topic, topic.num_partitions) for topic in topics}

    def create_partitions(self, more: Iterable[Any]) -> dict[Any, Future[None]]:
        return {topic.topic: self._set(topic.topic, topic.new_total_count) for topic in more}

    def incremental_alter_configs(self, resources: Iterable[Any]) -> dict[Any, Future[None]]:
        for resource in resources:
            self.configured.append(resource.name)
            settings = {entry.name: entry.value for entry in resource.incremental_configs}
            self.settings.setdefault(resource.name, {}).update(settings)
            self.in_sync[resource.name] = self.settings[resource.name]["min.insync.replicas"]
        return {}

    def _entries(self, name: str) -> dict[str, Any]:
        return {key: SimpleNamespace(value=value) for key, value in self.settings.get(name, {}).items()}

    def _parts(self, name: str) -> dict[int, Any]:
        copies = list(range(self.replicas[name]))
        return {number: SimpleNamespace(replicas=copies) for number in range(self.partitions[name])}

    def _set(self, name: str, partitions: int) -> Future[None]:
        self.partitions[name] = partitions
        return self._done(None)

    def _done(self, result: T) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(result)
        return done


def apply(monkeypatch: pytest.MonkeyPatch, brokers: Brokers, *options: str, **declared: int) -> Result:
    """Apply a declaration of 12 partitions each, but for ``declared``, by the second part of a topic's name."""

    def wanted(engine_cluster: str = "") -> tuple[Topic, ...]:
        names = (engine_topic(engine_cluster),) if engine_cluster else NAMES[:-1]
        return tuple(Topic(name=name, partitions=declared.get(name.split(".")[1], 12)) for name in names)

    monkeypatch.setattr(topics, "load_topics", wanted)
    monkeypatch.setattr(topics, "_connected", lambda _: ("Kafka", brokers))
    return CliRunner().invoke(topics.app, ["apply", *options])


@pytest.mark.parametrize("name", [COMMANDS, REPORTS, ENGINE])
@pytest.mark.parametrize("partitions", [6, 24])
def test_apply_when_keys_would_move_then_it_refuses_before_it_changes_anything(
    monkeypatch: pytest.MonkeyPatch, name: str, partitions: int
) -> None:
    there = {each: 12 for each in NAMES if each != WORKSPACE}
    brokers = Brokers(there)
    outcome = apply(monkeypatch, brokers, **{name.split(".")[1]: partitions})
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert f"{name} has 12 partitions, not {partitions}" in str(outcome.exception)
    assert "write 12 again" in str(outcome.exception)
    assert (brokers.partitions, brokers.configured) == (there, [])


def test_apply_when_there_is_nothing_then_every_topic_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({})
    assert apply(monkeypatch, brokers, commands=24, observations=24).exit_code == 0
    assert brokers.partitions == {COMMANDS: 24, REPORTS: 24, ENGINE: 12, WORKSPACE: 12}


def test_apply_when_a_topic_grows_whose_keys_may_move_then_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(dict.fromkeys(NAMES, 12))
    assert apply(monkeypatch, brokers, workspace=24).exit_code == 0
    assert brokers.partitions == dict.fromkeys(NAMES, 12) | {WORKSPACE: 24}
    assert brokers.configured == list(NAMES)


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")])
def test_apply_when_there_are_brokers_then_a_topic_is_on_three_and_a_write_on_two(
    monkeypatch: pytest.MonkeyPatch, brokers: int, copies: int, in_sync: str
) -> None:
    cluster = Brokers({}, brokers=brokers)
    assert apply(monkeypatch, cluster).exit_code == 0
    assert cluster.replicas == dict.fromkeys(NAMES, copies)
    assert cluster.in_sync == dict.fromkeys(NAMES, in_sync)


def test_apply_when_the_number_of_copies_is_told_then_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC_REPLICATION_FACTOR", "5")
    cluster = Brokers({}, brokers=6)
    assert apply(monkeypatch, cluster).exit_code == 0
    assert cluster.replicas == dict.fromkeys(NAMES, 5)


def test_apply_when_topics_have_too_few_copies_then_it_says_so_and_writes_stay_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Brokers(dict.fromkeys(NAMES, 12), brokers=3, replicas=1)
    outcome = apply(monkeypatch, cluster)
    assert f"{COMMANDS}: 1 replicas, not 3" in outcome.stderr
    assert cluster.in_sync == dict.fromkeys(NAMES, "1")


def test_apply_when_everything_is_as_declared_then_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Brokers(dict.fromkeys(NAMES, 12))
    apply(monkeypatch, cluster)
    cluster.configured.clear()
    assert apply(monkeypatch, cluster).exit_code == 0
    assert cluster.configured == []


def test_dry_run_when_something_differs_then_it_tells_each_change_and_makes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {COMMANDS: 12, REPORTS: 12, WORKSPACE: 6}
    cluster = Brokers(there)
    cluster.settings = {COMMANDS: {"min.insync.replicas": "1"}, REPORTS: {"min.insync.replicas": "2"}}
    outcome = apply(monkeypatch, cluster, "--dry-run")
    assert outcome.stdout.splitlines() == [
        f"{REPORTS}: min.insync.replicas 2 → 1",
        f"{WORKSPACE}: partitions 6 → 12",
        f"{WORKSPACE}: min.insync.replicas unset → 1",
        f"{ENGINE}: create, 12 partitions, 1 replicas, min.insync.replicas=1",
    ]
    assert (cluster.partitions, cluster.configured) == (there, [])


def test_dry_run_when_keys_would_move_then_it_refuses_as_apply_does(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = apply(monkeypatch, Brokers({COMMANDS: 6}), "--dry-run")
    assert isinstance(outcome.exception, InvalidConfiguration)


def test_dry_run_when_everything_is_as_declared_then_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Brokers(dict.fromkeys(NAMES, 12))
    apply(monkeypatch, cluster)
    assert apply(monkeypatch, cluster, "--dry-run").stdout == "every topic is as declared\n"


def test_apply_when_engine_clusters_are_named_then_each_has_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({})
    named = apply(monkeypatch, brokers, "--engine-cluster", "default", "--engine-cluster", "eu-2")
    assert named.exit_code == 0
    assert {engine_topic("default"), engine_topic("eu-2")} <= brokers.partitions.keys()


@pytest.mark.parametrize("name", ["", "EU", "a.b", "-a", "a" * 64])
def test_apply_when_an_engine_cluster_cannot_be_called_so_then_nothing_is_made(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    brokers = Brokers({})
    outcome = apply(monkeypatch, brokers, "--engine-cluster", name)
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert brokers.partitions == {}
