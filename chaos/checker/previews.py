"""Previews: when an Environment is over everything of it is gone. What was made for it is judged with what made it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from chaos.api import APP_ENVIRONMENT, BINDING, CLAIM, EXPIRES_AT
from chaos.checker.difference import Difference, difference_of
from chaos.checker.world import World
from chaos.record import Record
from services.common.kubernetes import Manifest


def preview_differences(world: World, record: Record) -> Iterator[Difference]:
    """Of all that are there. Nothing is judged for good before they are over."""
    for item in (*world.app_environments, *world.claims, *world.bindings):
        over_at = over_at_of(item, record)
        if over_at is not None and over_at <= world.read_at:
            yield difference_of("extra", item, f"it was to be over at {over_at.isoformat()}")
        elif over_at is not None:
            yield difference_of("status", item, f"it will be over at {over_at.isoformat()}")


def over_at_of(item: Manifest, record: Record) -> datetime | None:
    """When a preview is over, or the one that a claim or a binding is for, as its user has written it; None: never."""
    meta, kind = item["metadata"], item["kind"]
    name = item["spec"]["environment"] if kind == BINDING.kind else meta["name"]
    if kind not in {APP_ENVIRONMENT.kind, CLAIM.kind, BINDING.kind}:
        return None
    environment = record.present.get((APP_ENVIRONMENT.kind, meta["namespace"], name))
    text = (environment["metadata"].get("annotations") or {}).get(EXPIRES_AT) if environment is not None else None
    return datetime.fromisoformat(text) if text else None
