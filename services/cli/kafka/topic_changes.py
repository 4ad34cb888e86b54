"""What has to change so that the brokers' topics are as declared. Pure; :mod:`topics` carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from services.common.errors import InvalidConfiguration
from services.common.kafka import COMMANDS, OBSERVATIONS, Topic, is_engine_topic, log_of

PARTITIONED_FOR_EVER = (COMMANDS, OBSERVATIONS)
"""These logs, and the topics of engine clusters' rows. With another number of partitions keys move. Of tenants that
moved a resync in their former partition would miss everything, and instances would lose their desired state: either way
live Applications are deleted."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the brokers have it."""

    partitions: int
    replicas: int
    """The least that one of its partitions has."""
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """It does not exist."""

    topic: Topic
    replicas: int

    @property
    def settings(self) -> Mapping[str, str]:
        """All settings of the new topic."""
        return _settings(self.topic, self.replicas)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.topic.name}: create, {self.topic.partitions} partitions, {self.replicas} replicas, {settings}"


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """It has fewer partitions than declared."""

    topic: Topic
    before: int

    def __str__(self) -> str:
        return f"{self.topic.name}: partitions {self.before} → {self.topic.partitions}"


@dataclass(frozen=True, slots=True)
class AlterSettings:
    """Some settings have other values."""

    topic: Topic
    before: Mapping[str, str]
    settings: Mapping[str, str]
    """Those that differ."""

    def __str__(self) -> str:
        changes = (f"{name} {self.before.get(name, 'unset')} → {value}" for name, value in self.settings.items())
        return f"{self.topic.name}: {', '.join(changes)}"


TopicChange = CreateTopic | AddPartitions | AlterSettings


def topic_changes(
    declared: Iterable[Topic], existing: Mapping[str, TopicState], replicas: int
) -> tuple[TopicChange, ...]:
    """In the order of the declaration; a new topic gets ``replicas`` copies.

    Raises InvalidConfiguration if a change would move keys.
    """
    return tuple(change for topic in declared for change in _changes(topic, existing.get(topic.name), replicas))


def _changes(topic: Topic, state: TopicState | None, replicas: int) -> Iterator[TopicChange]:
    if state is None:
        yield CreateTopic(topic, replicas)
        return
    is_fixed = log_of(topic.name) in PARTITIONED_FOR_EVER or is_engine_topic(topic.name)
    if state.partitions != topic.partitions and is_fixed:
        raise InvalidConfiguration(
            f"topics.yaml: {topic.name} has {state.partitions} partitions, not {topic.partitions}, and their number "
            "must not change: keys would move, and Applications that are in use would be deleted; write "
            f"{state.partitions} again. For more, see docs/operations/topics.md"
        )
    if state.partitions < topic.partitions:
        yield AddPartitions(topic, state.partitions)
    wanted = _settings(topic, state.replicas)
    different = {name: value for name, value in wanted.items() if state.settings.get(name) != value}
    if different:
        yield AlterSettings(topic, state.settings, different)


def _settings(topic: Topic, replicas: int) -> dict[str, str]:
    """As declared; and a write counts (acks=all) once all copies but one have it, so that losing one loses nothing."""
    return {"min.insync.replicas": str(max(1, replicas - 1))} | topic.config
