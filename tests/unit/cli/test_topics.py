"""``gitopsctl topics apply`` makes the brokers agree with the declaration, but never moves a key."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from services.cli import topics
from services.common.errors import InvalidConfiguration
from services.common.kafka import COMMANDS, ENGINE, OBSERVATIONS, WORKSPACE, Topic

NAMES = (COMMANDS, OBSERVATIONS, ENGINE, WORKSPACE)


class Brokers:
    """Topics in memory, with the calls of an AdminClient that change them."""

    def __init__(self, partitions: dict[str, int]) -> None:
        self.partitions = dict(partitions)
        self.configured: list[str] = []

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(
            topics={name: SimpleNamespace(partitions=range(count)) for name, count in self.partitions.items()}
        )

    def create_topics(self, new: Iterable[Any]) -> dict[Any, Future[None]]:
        return {topic.topic: self._set(topic.topic, topic.num_partitions) for topic in new}

    def create_partitions(self, more: Iterable[Any]) -> dict[Any, Future[None]]:
        return {topic.topic: self._set(topic.topic, topic.new_total_count) for topic in more}

    def incremental_alter_configs(self, resources: Iterable[Any]) -> dict[Any, Future[None]]:
        self.configured += [resource.name for resource in resources]
        return {}

    def _set(self, name: str, partitions: int) -> Future[None]:
        self.partitions[name] = partitions
        done: Future[None] = Future()
        done.set_result(None)
        return done


def apply(monkeypatch: pytest.MonkeyPatch, brokers: Brokers, **declared: int) -> Result:
    """Apply a declaration of 12 partitions each, but for ``declared``, by the last part of a topic's name."""
    wanted = tuple(Topic(name=name, partitions=declared.get(name.removeprefix("gitops."), 12)) for name in NAMES)
    monkeypatch.setattr(topics, "load_topics", lambda: wanted)
    monkeypatch.setattr(topics, "_connected", lambda _: ("Kafka", brokers))
    return CliRunner().invoke(topics.app, ["apply"])


@pytest.mark.parametrize("name", [COMMANDS, OBSERVATIONS, ENGINE])
@pytest.mark.parametrize("partitions", [6, 24])
def test_apply_when_keys_would_move_then_it_refuses_before_it_changes_anything(
    monkeypatch: pytest.MonkeyPatch, name: str, partitions: int
) -> None:
    there = {each: 12 for each in NAMES if each != WORKSPACE}
    brokers = Brokers(there)
    outcome = apply(monkeypatch, brokers, **{name.removeprefix("gitops."): partitions})
    assert isinstance(outcome.exception, InvalidConfiguration)
    assert f"{name} has 12 partitions, not {partitions}" in str(outcome.exception)
    assert "write 12 again" in str(outcome.exception)
    assert (brokers.partitions, brokers.configured) == (there, [])


def test_apply_when_there_is_nothing_then_every_topic_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers({})
    assert apply(monkeypatch, brokers, commands=24, observations=24).exit_code == 0
    assert brokers.partitions == {COMMANDS: 24, OBSERVATIONS: 24, ENGINE: 12, WORKSPACE: 12}


def test_apply_when_a_topic_grows_whose_keys_may_move_then_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(dict.fromkeys(NAMES, 12))
    assert apply(monkeypatch, brokers, workspace=24).exit_code == 0
    assert brokers.partitions == dict.fromkeys(NAMES, 12) | {WORKSPACE: 24}
    assert brokers.configured == list(NAMES)
