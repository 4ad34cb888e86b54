"""What a comparison does about each instance: found out for all of them before the first is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.agent.provisioning.installation import Rendering
from services.agent.provisioning.installer import Installer
from services.agent.provisioning.waves import UNRECORDED, Member, Record, find_waiting
from services.common.errors import GitOpsError
from services.common.messages import FleetInstance


@dataclass(frozen=True, slots=True)
class Turn:
    """Of one instance."""

    wanted: Rendering
    """As it was when the comparison began: what changes meanwhile has its turns from the next one on."""
    record: Record | None
    """Of what the instance has; None: nothing is recorded, and nothing has to wait."""
    waits: str = ""
    """What is told of the instance while it is left as it is; empty: it is brought up to what is wanted."""


async def find_turns(
    installer: Installer, instances: Iterable[FleetInstance], now: datetime, soak: timedelta
) -> dict[str, Turn | GitOpsError]:
    """By instance its turn, or why there is none. Nothing is known of any instance while records are not to be read."""
    instances = list(instances)
    try:
        records = await installer.records.read(instances)
    except GitOpsError as error:
        return dict.fromkeys((each.id for each in instances), error)
    turns: dict[str, Turn] = {}
    errors: dict[str, GitOpsError] = {}
    for each in instances:
        try:
            wanted = installer.rendering_of(each)
            turns[each.id] = Turn(wanted, await _record_of(installer, each, wanted, records))
        except GitOpsError as error:
            errors[each.id] = error
    members = [
        Member(each, turn.wanted.digest, turn.record)
        for each in instances
        if (turn := turns.get(each.id)) is not None and turn.record is not None
    ]
    waiting = find_waiting(members, now, soak)
    return errors | {name: replace(turn, waits=waiting.get(name, "")) for name, turn in turns.items()}


async def _record_of(
    installer: Installer, instance: FleetInstance, wanted: Rendering, records: Mapping[str, Record]
) -> Record | None:
    if instance.id in records or not instance.is_in_service:
        return records.get(instance.id)
    return UNRECORDED if await installer.is_to_change(instance, wanted) else None
