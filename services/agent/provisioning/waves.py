"""Which instances of an engine cluster get manifests that have changed now, and why the others wait for them. Pure.

Manifests change when somebody renders them anew, or when a release makes other objects of them. An instance that is in
service then waits for its turn:

- **Waves** go ring by ring, in the order of ``RINGS``. The first wave is one instance. A further one is as many as have
  the changed manifests already, at most, without those that were down when they got them.
- **A wave begins** when all that have the changed manifests are well, and have been so with these for the soak: they
  work, or are degraded as they were before. While one of them is not, or nobody tells how it is, none begins. One that
  has had its soak stops them only while it is down, or nobody tells how it is. One that was down when it got them, and
  has not worked since, says nothing about them: it is not counted, unless nobody else has them.
- **An instance that is not in service yet**, or has failed, waits for nothing. None begins while there is one with the
  changed manifests: it may be there because another does not work with them.
- **An instance that is down** does not wait for its turn once another has been well with these for the soak: so what is
  set back heals at once. Manifests that no instance has come to an ill one first, of those whose turn it is.

What an instance has is in its ``Record``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.common.messages import RINGS, FleetInstance, Health
from services.common.times import rfc3339

TURNS = {ring: number for number, ring in enumerate(RINGS)}
WAITS = "its manifests have changed and are not applied yet: it waits for "
"""Beginning of the message about a waiting instance, followed by what it waits for."""


@dataclass(frozen=True, slots=True)
class Record:
    """The manifests that an instance last got, and its health with them."""

    digest: str
    """Digest of the manifests; empty: unknown."""
    since: datetime | None
    """Since when the instance has all of them, and is well with them; None: it is not."""
    ill: str = ""
    """Its health when it began to get them; empty: it was well, or has been well since."""
    is_proven: bool = False
    """Whether it was well with them for the soak, and not down since."""


UNRECORDED = Record(digest="", since=None)
"""The record of an instance that an earlier release has installed, and that differs from what is wanted now."""


@dataclass(frozen=True, slots=True)
class Member:
    """An instance of the engine cluster, the digest of its wanted manifests, and its record."""

    instance: FleetInstance
    wanted: str
    record: Record

    @property
    def has_wanted(self) -> bool:
        """Whether it has the wanted manifests, or is getting them."""
        return self.record.digest == self.wanted

    @property
    def is_informative(self) -> bool:
        """Whether its health says something about its manifests."""
        return self.record.ill != Health.DOWN


def begun(instance: FleetInstance, digest: str) -> Record:
    """The record of an instance that begins to get manifests."""
    return Record(digest, since=None, ill=instance.health if instance.is_ill else "")


def completed(
    record: Record, instance: FleetInstance, now: datetime, soak: timedelta, *, is_rolled_out: bool
) -> Record:
    """The record of an instance to which all of the manifests were applied."""
    if not (_is_well(instance, record) and is_rolled_out):
        return replace(record, since=None, is_proven=record.is_proven and not _is_down(instance))
    since = record.since or now
    ill = "" if instance.is_working else record.ill
    return replace(record, since=since, ill=ill, is_proven=record.is_proven or now >= since + soak)


def believed(record: Record, now: datetime) -> Record:
    """The record, without a time in the future: somebody has changed it, or the clock."""
    return replace(record, since=None) if record.since is not None and record.since > now else record


def find_waiting(members: Iterable[Member], now: datetime, soak: timedelta) -> dict[str, str]:
    """What each instance waits for that does not get its changed manifests yet. All others may continue."""
    ordered = sorted(members, key=_turn)
    serving = [each for each in ordered if each.instance.is_in_service]
    late = [each for each in serving if not each.has_wanted]
    changing = {each.wanted for each in late}
    having = [each for each in serving if each.has_wanted and each.wanted in changing]
    proven = {each.wanted for each in having if not _obstacle(each, now, soak)}
    left = [each for each in late if not (_is_down(each.instance) and each.wanted in proven)]
    counted = _counted(having)
    unready = [each for each in ordered if not each.instance.is_in_service and each.wanted in changing]
    obstacles = [*(_obstacle(each, now, soak) for each in counted), *map(_unready, unready)]
    obstacle = next(filter(None, obstacles), "")
    wave = [] if obstacle else _wave(left, Counter(each.wanted for each in counted))
    why = obstacle or f"its turn, after {', '.join(each.instance.id for each in wave[:1])}"
    return {each.instance.id: WAITS + why for each in left if each not in wave}


def _turn(member: Member) -> tuple[int, bool, str]:
    instance = member.instance
    return TURNS.get(instance.ring, len(TURNS)), not instance.is_ill, instance.id


def _is_down(instance: FleetInstance) -> bool:
    return instance.health == Health.DOWN


def _is_well(instance: FleetInstance, record: Record) -> bool:
    """Whether it works, or is degraded as it was when it began to get its manifests."""
    return instance.is_working or instance.health == record.ill == Health.DEGRADED


def _obstacle(member: Member, now: datetime, soak: timedelta) -> str:
    """Why no other instance may get this one's manifests yet; empty: one may."""
    instance, record = member.instance, member.record
    if _is_down(instance) or (instance.is_ill and not record.is_proven and not _is_well(instance, record)):
        reason = f" ({instance.health_reason})" if instance.health_reason else ""
        return f"{instance.id}, which has its changed ones already and is {instance.health}{reason}"
    if not (instance.is_working or instance.is_ill):
        return f"{instance.id}, which has its changed ones already and of which no agent tells how it is"
    if record.is_proven:
        return ""
    if record.since is None:
        return f"{instance.id}, which is being brought up to its changed ones"
    if now < record.since + soak:
        return f"{instance.id}, which has to work with its changed ones until {rfc3339(record.since + soak)}"
    return ""


def _unready(member: Member) -> str:
    """Why no other instance may get the manifests with which this one was installed."""
    how = "has failed" if member.instance.state == "failed" else "is not ready yet"
    return f"{member.instance.id}, which was installed with its changed ones and {how}"


def _counted(having: Sequence[Member]) -> list[Member]:
    """The instances whose health says something about their manifests."""
    observed = {each.wanted for each in having if each.is_informative}
    return [each for each in having if each.is_informative or each.wanted not in observed]


def _wave(late: Sequence[Member], counted: Counter[str]) -> list[Member]:
    """The waiting instances whose turn is now, in order: all of one ring."""
    wave: list[Member] = []
    taken = Counter[str]()
    for each in late:
        has_turn = each.instance.ring == late[0].instance.ring and len(wave) < max(1, counted.total())
        if has_turn and taken[each.wanted] < max(1, counted[each.wanted]):
            taken[each.wanted] += 1
            wave.append(each)
    return wave
