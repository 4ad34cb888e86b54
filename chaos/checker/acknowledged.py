"""What users wrote is still there as the API server acknowledged it, and nothing that they have deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chaos.checker.difference import Difference
from chaos.checker.world import World
from chaos.record import Key, Record, content_of, key_of
from services.common.kubernetes import Manifest


def acknowledged_differences(world: World, record: Record) -> Iterator[Difference]:
    """All of them."""
    every = (*world.deployments, *world.environments, *world.credentials, *world.runs, *world.secrets)
    live = {key_of(item): item for item in every}
    yield from _lost(live, record)
    yield from _not_gone(live, world, record)


def _lost(live: Mapping[Key, Manifest], record: Record) -> Iterator[Difference]:
    for key, stored in record.present.items():
        item = live.get(key)
        if item is None or item["metadata"]["uid"] != stored["metadata"]["uid"]:
            yield Difference("lost", "/".join(key), "it was acknowledged, and is gone", key[1])
        elif content_of(item) != content_of(stored):
            yield Difference("lost", "/".join(key), "it is not as it was acknowledged", key[1])


def _not_gone(live: Mapping[Key, Manifest], world: World, record: Record) -> Iterator[Difference]:
    for key, item in live.items():
        if item["metadata"].get("deletionTimestamp"):
            yield Difference("extra", "/".join(key), "its deletion has not ended", key[1])
        elif key not in record.present:
            yield Difference("extra", "/".join(key), "its deletion was acknowledged", key[1])
    for namespace in world.namespaces:
        if namespace["metadata"].get("deletionTimestamp"):
            name = namespace["metadata"]["name"]
            yield Difference("extra", f"Namespace {name}", "its deletion has not ended", name)
