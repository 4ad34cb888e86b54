"""What users wrote is still there as the API server acknowledged it, and nothing that they have deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos.api import BINDING, PROMOTION_RUN
from chaos.checker.bindings import binding_of
from chaos.checker.difference import Difference
from chaos.checker.world import World
from chaos.record import Key, Record, content_of, key_of
from services.common.kubernetes import Manifest


def acknowledged_differences(world: World, record: Record) -> Iterator[Difference]:
    """All of them."""
    deployments = [item for item in world.deployments if not binding_of(item)]
    every = (*deployments, *world.environments, *world.credentials, *world.runs, *world.secrets)
    of_applications = (*world.app_environments, *world.snapshots, *world.bindings, *world.promotions)
    live = {key_of(item): item for item in (*every, *of_applications)}
    yield from _lost(live, record)
    yield from _not_gone(live, world, record)


def _lost(live: Mapping[Key, Manifest], record: Record) -> Iterator[Difference]:
    for key, stored in record.present.items():
        item = live.get(key)
        if item is None or item["metadata"]["uid"] != stored["metadata"]["uid"]:
            yield Difference("lost", "/".join(key), "it was acknowledged, and is gone", key[1])
        elif _written(item) != _written(stored):
            yield Difference("lost", "/".join(key), "it is not as it was acknowledged", key[1])


def _not_gone(live: Mapping[Key, Manifest], world: World, record: Record) -> Iterator[Difference]:
    for key, item in live.items():
        if item["metadata"].get("deletionTimestamp"):
            yield Difference("extra", "/".join(key), "its deletion has not ended", key[1])
        elif key not in record.present and not _is_generated(key, record):
            yield Difference("extra", "/".join(key), "its deletion was acknowledged", key[1])
    for namespace in world.namespaces:
        if namespace["metadata"].get("deletionTimestamp"):
            name = namespace["metadata"]["name"]
            yield Difference("extra", f"Namespace {name}", "its deletion has not ended", name)


def _written(item: Manifest) -> Any:
    """What only users write: a promotion gives a binding its snapshot."""
    content = content_of(item)
    return content | {"snapshot": ""} if item["kind"] == BINDING.kind else content


def _is_generated(key: Key, record: Record) -> bool:
    """Whether a promotion may have made it: a binding that nobody else has."""
    kind, namespace, name = key
    was_promoted = any(known[:2] == (PROMOTION_RUN.kind, namespace) for known in record.names.values())
    return kind == BINDING.kind and name.endswith("-generated-binding") and was_promoted
