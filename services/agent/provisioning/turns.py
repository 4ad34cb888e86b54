"""What a comparison does about each instance. It is decided for all of them before the first is changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.agent.provisioning.installation import Rendering
from services.agent.provisioning.installer import Installer
from services.agent.provisioning.waves import UNRECORDED, Member, Record, believed, find_waiting
from services.common.errors import GitOpsError
from services.common.messages import FleetInstance


@dataclass(frozen=True, slots=True)
class Turn:
    """What to do about one instance."""

    wanted: Rendering
    """The rendering when the comparison began. Later changes have their turns from the next comparison on."""
    record: Record | None
    """What the instance has; None: that is unknown, and nothing has to wait."""
    is_written: bool
    """Whether the record is already stored like this."""
    waits: str = ""
    """Why it is not updated now; empty: it may be."""


async def find_turns(
    installer: Installer, instances: Iterable[FleetInstance], now: datetime, soak: timedelta
) -> dict[str, Turn | GitOpsError]:
    """The turn of each instance, or the error that prevents it."""
    turns: dict[str, Turn] = {}
    errors: dict[str, GitOpsError] = {}
    members: list[Member] = []
    renderings: dict[tuple[str, str], Rendering] = {}
    for each in instances:
        of_release = (each.wanted_version, each.profile)
        try:
            if of_release not in renderings:
                renderings[of_release] = installer.rendering_of(each)
            wanted = renderings[of_release]
        except GitOpsError as error:
            errors[each.id] = error
            continue
        try:
            turn = await _turn_of(installer, each, wanted, now)
        except GitOpsError as error:
            errors[each.id] = error
            members.append(Member(each, wanted.digest, _unread(wanted)))
            continue
        turns[each.id] = turn
        if turn.record is not None or not each.is_in_service:
            members.append(Member(each, wanted.digest, turn.record or UNRECORDED))
    waiting = find_waiting(members, now, soak)
    return errors | {name: replace(turn, waits=waiting.get(name, "")) for name, turn in turns.items()}


async def _turn_of(installer: Installer, instance: FleetInstance, wanted: Rendering, now: datetime) -> Turn:
    written = await installer.records.read(instance)
    if written is not None:
        record = believed(written, now)
        return Turn(wanted, record, is_written=record == written)
    found = await installer.found(instance, wanted) if instance.is_in_service else None
    return Turn(wanted, found, is_written=False)


def _unread(wanted: Rendering) -> Record:
    """The record of an instance that nobody can read. It must not let anything continue."""
    return Record(wanted.digest, since=None)
