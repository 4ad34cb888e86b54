"""What users wrote is still there as the API server acknowledged it, and nothing that they have deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos.api import APP_ENVIRONMENT, BINDING, CLAIM, PROMOTION_RUN, PROVISIONED_BY, TARGET
from chaos.checker.bindings import binding_of
from chaos.checker.difference import Difference
from chaos.checker.previews import over_at_of
from chaos.checker.tenants import owner_of
from chaos.checker.world import World
from chaos.record import Key, Record, content_of, key_of
from services.common.kubernetes import Manifest


def acknowledged_differences(world: World, record: Record) -> Iterator[Difference]:
    """All of them."""
    deployments = [item for item in world.deployments if not binding_of(item)]
    every = (*deployments, *world.environments, *world.credentials, *world.runs, *world.secrets)
    of_applications = (*world.app_environments, *world.snapshots, *world.bindings, *world.promotions)
    of_places = (*world.claims, *world.targets)
    live = {key_of(item): item for item in (*every, *of_applications, *of_places)}
    yield from _lost(live, record)
    yield from _not_gone(live, world, record)


def _lost(live: Mapping[Key, Manifest], record: Record) -> Iterator[Difference]:
    for key, stored in record.present.items():
        item = live.get(key)
        if item is None or item["metadata"]["uid"] != stored["metadata"]["uid"]:
            if not _may_be_reclaimed(stored, record) and over_at_of(stored, record) is None:
                yield Difference("lost", "/".join(key), "it was acknowledged, and is gone", key[1])
        elif _written(item, stored) != _written(stored, stored):
            yield Difference("lost", "/".join(key), "it is not as it was acknowledged", key[1])


def _not_gone(live: Mapping[Key, Manifest], world: World, record: Record) -> Iterator[Difference]:
    for key, item in live.items():
        if item["metadata"].get("deletionTimestamp"):
            yield Difference("extra", "/".join(key), "its deletion has not ended", key[1])
        elif key not in record.present and not _is_generated(key, item, record):
            yield Difference("extra", "/".join(key), "its deletion was acknowledged", key[1])
    for namespace in world.namespaces:
        if namespace["metadata"].get("deletionTimestamp"):
            name = namespace["metadata"]["name"]
            yield Difference("extra", f"Namespace {name}", "its deletion has not ended", name)


def _written(item: Manifest, stored: Manifest) -> Any:
    """What only users write: a promotion gives a binding its snapshot, and the binder a claim and a target each other.

    Which snapshot that is, is judged with promotions. A claim keeps the target that its user has named in ``stored``.
    """
    content = content_of(item)
    given = {BINDING.kind: "snapshot", TARGET.kind: "claimRef"}
    if item["kind"] == CLAIM.kind and not stored["spec"].get("targetName"):
        given[CLAIM.kind] = "targetName"
    return content | {name: ""} if (name := given.get(item["kind"])) else content


def _may_be_reclaimed(target: Manifest, record: Record) -> bool:
    """Whether it is one of a class that deletes targets, and a claim that may have had it was deleted."""
    if target["kind"] != TARGET.kind:
        return False
    class_name = target["spec"]["deploymentTargetClassName"]
    claims = [uid for uid, key in record.names.items() if key[0] == CLAIM.kind and key in record.deleted]
    here = [uid for uid in claims if record.names[uid][1] == target["metadata"]["namespace"]]
    classes = {record.contents[uid][0]["deploymentTargetClassName"] for uid in here}
    return "Delete" in record.policies[class_name] and class_name in classes


def _is_generated(key: Key, item: Manifest, record: Record) -> bool:
    """Whether it was made for something of a user's.

    That may be a binding that nobody else has, by a promotion; or an environment, a Secret or a target, which are
    judged with what they were made for.
    """
    kind, namespace, name = key
    if owner_of(item, APP_ENVIRONMENT) or PROVISIONED_BY in (item["metadata"].get("annotations") or {}):
        return True
    was_promoted = any(known[:2] == (PROMOTION_RUN.kind, namespace) for known in record.names.values())
    return kind == BINDING.kind and name.endswith("-generated-binding") and was_promoted
