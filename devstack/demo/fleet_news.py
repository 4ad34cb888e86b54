"""What has changed between two looks at the fleet, in words: the plain lines that stay when the live table is gone."""

from __future__ import annotations

from collections.abc import Iterator

from services.cli.fleet.fleet_view import FleetSnapshot, remedy_words, rollout_words
from services.common.messages import Health


def news(before: FleetSnapshot, after: FleetSnapshot) -> list[str]:
    """A line for each change that a person would want to know of, those of instances first."""
    return [*_of_instances(before, after), *_of_moves(before, after), *_of_rollout(before, after)]


def _of_instances(before: FleetSnapshot, after: FleetSnapshot) -> Iterator[str]:
    for row in after.instances(retired=True):
        name, known = row.id, before.fleet.instances.get(row.id)
        if known is None or known.state != row.state:
            yield f"{name} is {row.state}"
        if (health := _health(after, name)) != _health(before, name):
            yield f"{name} is {health}"
        remedy, earlier = after.remedy(name), before.remedy(name)
        if remedy is not None and (earlier is None or remedy_words(remedy) != remedy_words(earlier)):
            yield f"{name}: {remedy_words(remedy)}"
        if (name in after.fleet.cordoned) != (name in before.fleet.cordoned):
            yield f"{name} is {'' if name in after.fleet.cordoned else 'no longer '}cordoned"


def _health(snapshot: FleetSnapshot, name: str) -> str:
    told = snapshot.fleet.health.get(name)
    return " ".join(filter(None, (told.health, told.reason))) if told is not None else Health.UNKNOWN.value


def _of_moves(before: FleetSnapshot, after: FleetSnapshot) -> Iterator[str]:
    earlier = {move.id: move for move in before.moves()}
    later = {move.id: move for move in after.moves()}
    for move in later.values():
        if move.id not in earlier:
            yield f"{move.namespace} moves: {move.source} → {move.target}"
    for move in earlier.values():
        if move.id not in later:
            yield f"{move.namespace} has moved: {move.source} → {move.target}"


def _of_rollout(before: FleetSnapshot, after: FleetSnapshot) -> Iterator[str]:
    if after.rollout is None:
        return
    words = rollout_words(after.rollout)
    if before.rollout is None or rollout_words(before.rollout) != words:
        yield words
