"""Which instances of an engine cluster get manifests that have changed now, and why the others wait for them. Pure.

Manifests change when somebody renders them anew, or when a release makes other objects of them. An instance that is in
service then waits for its turn:

- **Waves** go ring by ring, in the order of ``RINGS``. The first wave is one instance. A further one is as many as have
  the changed manifests already, at most, without those that were ill when they got them.
- **A wave begins** when all that have the changed manifests work, and have done so with these for the soak. While one
  of them does not work, or nobody tells how it is, none begins. One that was ill when it got them, and still is, says
  nothing about them: it is not counted, unless nobody else has them.
- **An instance that is ill** does not wait for its turn once another has worked with these manifests for the soak: so
  what is set back heals at once. Manifests that no instance has come to an ill one first, of those whose turn it is.

What an instance has is in its ``Record``. One that has none waits for nothing, and is of no wave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.common.messages import RINGS, FleetInstance
from services.common.times import rfc3339

TURNS = {ring: number for number, ring in enumerate(RINGS)}
WAITS = "its manifests have changed and are not applied yet: it waits for "
"""What is told of an instance before what it waits for."""


@dataclass(frozen=True, slots=True)
class Record:
    """What an instance was last brought up to, and how that went."""

    digest: str
    """Of the manifests; empty: nobody knows."""
    since: datetime | None
    """Since when it has all of them, and works with them; None: it does not."""
    worked: bool
    """Whether it was not ill when it began to get them, or has worked with them since."""


UNRECORDED = Record(digest="", since=None, worked=True)
"""Of an instance that an earlier release has installed, and that has not all of what is wanted now."""


@dataclass(frozen=True, slots=True)
class Member:
    """An instance of the engine cluster, the digest of the manifests that are wanted for it, and what it has."""

    instance: FleetInstance
    wanted: str
    record: Record

    @property
    def has_wanted(self) -> bool:
        """Or is being brought up to it."""
        return self.record.digest == self.wanted


def begun(instance: FleetInstance, digest: str) -> Record:
    """The record of an instance that is to be brought up to manifests from now on."""
    return Record(digest, since=None, worked=not instance.is_ill)


def completed(record: Record, instance: FleetInstance, now: datetime) -> Record:
    """The record of an instance that has all of the manifests."""
    if not instance.is_working:
        return replace(record, since=None)
    return record if record.since is not None else replace(record, since=now, worked=True)


def find_waiting(members: Iterable[Member], now: datetime, soak: timedelta) -> dict[str, str]:
    """By instance that does not get its changed manifests yet, what it waits for; all others may go on."""
    serving = sorted((each for each in members if each.instance.is_in_service), key=_turn)
    late = [each for each in serving if not each.has_wanted]
    changing = {each.wanted for each in late}
    having = [each for each in serving if each.has_wanted and each.wanted in changing]
    proven = {each.wanted for each in having if not _obstacle(each, now, soak)}
    left = [each for each in late if not (each.instance.is_ill and each.wanted in proven)]
    counted = _counted(having)
    obstacle = next(filter(None, (_obstacle(each, now, soak) for each in counted)), "")
    wave = [] if obstacle else _wave(left, Counter(each.wanted for each in counted))
    why = obstacle or f"its turn, after {', '.join(each.instance.id for each in wave[:1])}"
    return {each.instance.id: WAITS + why for each in left if each not in wave}


def _turn(member: Member) -> tuple[int, bool, str]:
    instance = member.instance
    return TURNS.get(instance.ring, len(TURNS)), not instance.is_ill, instance.id


def _obstacle(member: Member, now: datetime, soak: timedelta) -> str:
    """Why what this instance has comes to no other yet; empty: it may."""
    instance, since = member.instance, member.record.since
    if instance.is_ill:
        reason = f" ({instance.health_reason})" if instance.health_reason else ""
        return f"{instance.id}, which has its changed ones already and is {instance.health}{reason}"
    if not instance.is_working:
        return f"{instance.id}, which has its changed ones already and of which no agent tells how it is"
    if since is None:
        return f"{instance.id}, which is being brought up to its changed ones"
    if now < since + soak:
        return f"{instance.id}, which has to work with its changed ones until {rfc3339(since + soak)}"
    return ""


def _counted(having: Sequence[Member]) -> list[Member]:
    """Those whose health says something about what they have."""
    told = {each.wanted for each in having if each.record.worked}
    return [each for each in having if each.record.worked or each.wanted not in told]


def _wave(late: Sequence[Member], counted: Counter[str]) -> list[Member]:
    """Of those that wait, in the order of their turns, the ones that go now: all of one ring."""
    wave: list[Member] = []
    taken = Counter[str]()
    for each in late:
        has_turn = each.instance.ring == late[0].instance.ring and len(wave) < max(1, counted.total())
        if has_turn and taken[each.wanted] < max(1, counted[each.wanted]):
            taken[each.wanted] += 1
            wave.append(each)
    return wave
