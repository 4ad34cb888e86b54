"""Which remedy comes next for engine instances that are not well. Pure: it decides, and changes nothing.

A ladder of remedies, each with the time that it may take to help; which of them can help depends on what is wrong.
What an agent does: Applications are compared anew, the controller, the repo server, the cache are restarted. What the
provisioner that has installed the instance does: it makes its settings and workloads anew; of one that was installed by
hand nobody does. What the planner does: the instance is cordoned, so that no tenant comes to it.

An instance that is degraded still deploys: all that may help is tried, and it is cordoned if nothing did. One that is
down deploys nothing new for its tenants, who wait for no more than one remedy: it is cordoned, the first that
may help is tried, for a shorter time, and then it is evacuated. The other remedies are tried while its tenants leave.
When nobody is left on it, and it does not recover for a while, it is replaced if a provisioner has installed it; or
else a person is told so.

Of each ring one instance at a time, so that a remedy that harms does so once. What is down has its turn before what is
degraded, and while one does no more than wait for its tenants to leave, the next has. If more than three tenths of the
fleet, or of one engine cluster, are ill at once (and more than one instance), the cause is shared, and none of these is
touched, and no move of an evacuation begins. A remedy of an agent that was held before it had had its time is not
tried: it is taken anew then, unless the agent has told of it. One that is drained, as after a failed rollout, may stay
ill: it does not count in that, and has its turn last.
Those of a cluster that an operator drains do not count, either, nor wait for each other: so all leave one that is lost.
An instance that has been healthy for a while is well: its cordon is lifted, and the next time the ladder begins anew.
One that was never ready is not ill: who ordered it is told what it lacks (``pools/provisioning.py``), and another like
it would lack the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from services.common.json_values import canonical
from services.common.messages import Remedy
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.placement.placement import is_cause_shared
from services.planner.domain.fleet.remediation.remediation_rows import Remediation, RemediationState
from services.planner.domain.fleet.remediation.replacement import is_replaceable
from services.planner.domain.fleet.rows import SILENT, EngineInstanceRow, InstanceHealth
from services.planner.domain.policy import RemedyPolicy

REAPPLY, CORDON, EVACUATE, REPLACE = "ReapplyConfiguration", "Cordon", "Evacuate", "Replace"
EVERYTHING = (*Remedy, REAPPLY)
HELPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "ControllerNotReady": (Remedy.RESTART_CONTROLLER, REAPPLY),
        "RepoServerNotReady": (Remedy.RESTART_REPO_SERVER, REAPPLY),
        "RedisNotReady": (Remedy.FLUSH_CACHE, REAPPLY),
        "Restarting": (Remedy.FLUSH_CACHE, REAPPLY),
        "HeartbeatLost": EVERYTHING,
        "HeartbeatLate": EVERYTHING,
        "HeartbeatFailing": (
            Remedy.REFRESH,
            Remedy.RESTART_REPO_SERVER,
            Remedy.FLUSH_CACHE,
            REAPPLY,
        ),
        "RepoServerFailing": (Remedy.RESTART_REPO_SERVER, Remedy.FLUSH_CACHE, REAPPLY),
        "ReconciliationLate": EVERYTHING,
        "RefreshNotTakenUp": EVERYTHING,
        "OtherVersion": (REAPPLY,),
        "NotAccepted": (REAPPLY,),
        "Closed": (REAPPLY,),
        "ApiFailing": (),
        "ApiSlow": (),
        SILENT: (),
    }
)
"""What an agent or a provisioner can do, by the reason that is told, first what helps most often. Of another reason,
nothing."""
COOL_DOWNS: Mapping[str, float] = MappingProxyType({Remedy.REFRESH: 0.5, REAPPLY: 2.0})
"""Of a rung, in proportion to that of a restart."""
WHILE_DOWN = 2 / 3
"""Likewise, of all rungs of an instance that is down: enough for pods to end, start, and be seen to do their work."""
LOOK_AGAIN = 0.2
"""After which part of that an instance is looked at again that waits for something else than time."""


@dataclass(frozen=True, slots=True)
class Illness:
    """An instance that is not well, and what is known of it."""

    instance: EngineInstanceRow
    health: InstanceHealth
    known: Remediation

    @property
    def reason(self) -> str:
        """As operators are told."""
        return self.health.message or self.health.reason


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the fleet finds."""

    fleet: Fleet
    now: datetime
    policy: RemedyPolicy
    stranded: Mapping[str, str]


def next_remedies(
    fleet: Fleet,
    remediations: Mapping[str, Remediation],
    now: datetime,
    policy: RemedyPolicy,
    stranded: Mapping[str, str] = MappingProxyType({}),
) -> list[Remediation]:
    """The rows that change, in their order: what has been ill longest counts first.

    Args:
        fleet: all rows; all tenants, if one of the instances may be evacuated.
        remediations: by instance.
        now: the time.
        policy: what operators lay down.
        stranded: instances of which no tenant can leave and none is on its way, with the rule that keeps the first.
    """
    known = {name: row for name, row in remediations.items() if name in fleet.instances}
    if not policy.is_on:
        return [_well(row, now, "remediation is off") for row in known.values() if row.state != "well"]
    ill = _illnesses(fleet, known, now)
    after = {name: _of_others(row, fleet, now, policy) for name, row in known.items() if name not in ill}
    held, look = _shared_causes(fleet, ill), Look(fleet, now, policy, stranded)
    after |= {name: _held(ill[name], message, look) for name, message in held.items()}
    after |= _of_ill([each for name, each in ill.items() if name not in held], look)
    return [row for name, row in after.items() if row != remediations.get(name)]


def ladder(health: InstanceHealth) -> tuple[str, ...]:
    """The rungs for what is wrong, in their order. What compares nothing at all takes up no refresh, either."""
    helps = HELPS.get(health.reason, ())
    if not health.is_down:
        return (*helps, CORDON)
    helps = [rung for rung in helps if rung != Remedy.REFRESH]
    return (CORDON, *helps[:1], EVACUATE, *helps[1:], REPLACE)


def next_rung(health: InstanceHealth, tried: Iterable[str]) -> str:
    """The first rung that may help and was not tried; empty if there is none."""
    done = set(tried)
    return next((rung for rung in ladder(health) if rung not in done), "")


def is_evacuation_due(health: InstanceHealth, tried: Iterable[str]) -> bool:
    """Whether tenants leave an instance, or may leave it as the next thing that is done."""
    rungs = {*tried}
    return health.is_down and (EVACUATE in rungs or next_rung(health, rungs) == EVACUATE)


def is_replaced(known: Remediation, fleet: Fleet) -> bool:
    """Whether nobody is left on an instance that is down, and it is given up, whatever else was tried for it since."""
    return REPLACE in known.remedies and fleet.is_down(known.engine_instance_id)


def _illnesses(fleet: Fleet, known: Mapping[str, Remediation], now: datetime) -> dict[str, Illness]:
    """By instance; what is ill longest first."""
    found = [
        Illness(row, health, known.get(row.id) or _new(row.id, now))
        for row in fleet.instances.values()
        if row.is_in_service and (health := fleet.health.get(row.id)) is not None and health.is_ill
    ]
    ordered = sorted(found, key=lambda each: (each.health.since, each.instance.id))
    return {each.instance.id: each for each in ordered}


def _shared_causes(fleet: Fleet, ill: Mapping[str, Illness]) -> dict[str, str]:
    """What is told of ill instances that are too many at once, in the fleet or in their cluster; by instance."""
    told = _shared_cause(fleet.instances.values(), fleet, ill)
    held = dict.fromkeys(ill, told) if told else {}
    by_cluster: defaultdict[str, list[EngineInstanceRow]] = defaultdict(list)
    for row in fleet.instances.values():
        by_cluster[row.engine_cluster].append(row)
    for cluster, rows in by_cluster.items():
        if len(by_cluster) > 1 and (told := _shared_cause(rows, fleet, ill)):
            lost = f"if it is lost, 'gitopsctl engine-clusters drain {cluster}' lets its tenants leave"
            held |= {row.id: f"engine cluster {cluster}: {told}; {lost}" for row in rows if row.id in ill}
    return held


def _shared_cause(rows: Iterable[EngineInstanceRow], fleet: Fleet, ill: Collection[str]) -> str:
    """What is told if too many of these are ill at once; empty if not."""
    counted = [row for row in rows if _is_counted(row, fleet)]
    count = sum(row.id in ill for row in counted)
    is_shared = is_cause_shared(count, len(counted))
    return f"{count} of {len(counted)} instances are ill at once: the cause is shared" if is_shared else ""


def _is_counted(row: EngineInstanceRow, fleet: Fleet) -> bool:
    """Whether it matters to others that an instance is ill."""
    return row.is_in_service and not (row.is_drained or _is_drained(row.engine_cluster, fleet))


def _is_drained(cluster: str, fleet: Fleet) -> bool:
    """By an operator, who may know that it is lost."""
    return fleet.clusters[cluster].state == "draining"


def _held(ill: Illness, message: str, look: Look) -> Remediation:
    """Without its remedy among those tried, if that has time yet: no agent may act, and so it is taken anew."""
    known = ill.known
    if known.rung in [*Remedy] and _may_help_yet(_going_on(ill), look):
        known = replace(known, tried=canonical([each for each in known.remedies if each != known.rung]))
    return _in_state(known, "held", message, look.now, _look(look.now, look.policy))


def _of_ill(illnesses: Sequence[Illness], look: Look) -> dict[str, Remediation]:
    """One instance of each ring at a time, for as long as a remedy may help.

    Then it is the turn of what is down, and of these first of those whose tenants wait and do not leave yet. Next, what
    is under way goes on, before others begin, and drained ones are last.
    To cordon or to evacuate takes no turn: it does nothing to the instance itself, and tenants may take long to leave.
    """
    helped = {each.instance.id: each for each in illnesses if _may_help_yet(each, look)}
    found = {name: _with_due_time(each, look) for name, each in helped.items()}
    busy = {_turn(each, look): name for name, each in helped.items() if _takes_turn(each.known.rung)}
    others = [each for each in illnesses if each.instance.id not in helped]
    for each in sorted(others, key=_precedence):
        other = busy.get(_turn(each, look), "")
        row = _resumed(each, other, look) or _step(each, other, look)
        found[row.engine_instance_id] = row
        if row.state == "acting" and _takes_turn(row.rung):
            busy[_turn(each, look)] = row.engine_instance_id
    return found


def _precedence(ill: Illness) -> tuple[bool, bool, bool, bool]:
    """Whose turn is next: who is less in this. Of one whose tenants leave already nobody waits for a remedy."""
    is_evacuated = EVACUATE in ill.known.remedies
    return ill.instance.is_drained, not ill.health.is_down, is_evacuated, ill.known.state != "acting"


def _takes_turn(rung: str) -> bool:
    """Whether others of the ring wait while it is carried out."""
    return rung not in (CORDON, EVACUATE)


def _turn(ill: Illness, look: Look) -> tuple[str, str]:
    """What one at a time is remedied of: a ring, or the instance alone, as a cluster that is drained is given up."""
    is_given_up = _is_drained(ill.instance.engine_cluster, look.fleet)
    return ("instance", ill.instance.id) if is_given_up else ("ring", ill.instance.ring)


def _time_to_help(ill: Illness, policy: RemedyPolicy) -> timedelta:
    """Of the newest rung.

    A rung that does nothing to the instance takes no time, unless tenants leave next and nothing else was done: the
    instance may recover by itself.
    """
    known, share = ill.known, WHILE_DOWN if ill.health.is_down else 1.0
    if not _is_idle(known.rung, ill):
        return policy.cool_down * COOL_DOWNS.get(known.rung, 1.0) * share
    following = next_rung(ill.health, known.remedies)
    is_untouched = all(_is_idle(rung, ill) for rung in known.remedies)
    is_last = not following or (following == EVACUATE and is_untouched)
    return policy.cool_down * share if is_last else timedelta(0)


def _is_idle(rung: str, ill: Illness) -> bool:
    """Whether nothing is done to the instance itself."""
    return rung == CORDON or (rung == REAPPLY and ill.instance.wanted_version is None)


def _resumed(ill: Illness, other: str, look: Look) -> Remediation | None:
    """With its remedy going on that was held, or not needed for a moment, before it had had its time.

    None: it had, or it is not among those tried, as it was held: then it is taken anew, if it still helps.
    Not beside ``other`` of its ring, which has its turn by now: it waits for that, as long as it has time.
    """
    known = ill.known
    is_tried = known.rung in known.remedies
    if known.state not in ("held", "recovering", "waiting") or known.rung in (EVACUATE, REPLACE) or not is_tried:
        return None
    resumed = _going_on(ill)
    if not _may_help_yet(resumed, look):
        return None
    return _waiting_for(other, known, look) if other and _takes_turn(known.rung) else _with_due_time(resumed, look)


def _going_on(ill: Illness) -> Illness:
    """As if its newest remedy had been acting since it was taken."""
    known = ill.known
    tried = canonical([*known.remedies])
    taken = replace(known, state="acting", tried=tried, since=known.taken_at, message=ill.reason, due_at=None)
    return replace(ill, known=taken)


def _waiting_for(other: str, known: Remediation, look: Look) -> Remediation:
    message = f"for {other}, of the same ring"
    return _in_state(known, "waiting", message, look.now, _look(look.now, look.policy))


def _may_help_yet(ill: Illness, look: Look) -> bool:
    return ill.known.state == "acting" and not ill.known.is_skipped and look.now < _ends_at(ill, look)


def _ends_at(ill: Illness, look: Look) -> datetime:
    """When the newest remedy has had its time. That of an evacuation is until the next look."""
    if ill.known.rung == EVACUATE:
        return ill.known.due_at or _look(look.now, look.policy)
    return ill.known.since + _time_to_help(ill, look.policy)


def _with_due_time(ill: Illness, look: Look) -> Remediation:
    """The row until its remedy has had its time.

    What is degraded is looked at meanwhile: a remedy of what is down by then has less time. So is what is evacuated:
    tenants may have somewhere to go by then.
    """
    known, ends_at = ill.known, _ends_at(ill, look)
    if ill.health.is_down and EVACUATE not in known.remedies:
        return replace(known, due_at=ends_at)
    if known.due_at is not None and known.due_at > look.now:
        return known
    return replace(known, due_at=min(ends_at, _look(look.now, look.policy)))


def _step(ill: Illness, other: str, look: Look) -> Remediation:
    """What becomes of one whose remedy has not helped, or that has had none yet; ``other`` of its ring is remedied."""
    known, again = ill.known, _look(look.now, look.policy)
    if not known.rung and look.now < (begins_at := _begins_at(ill, look.policy)):
        return _in_state(known, "waiting", f"not ill for long: {ill.reason}", look.now, begins_at)
    rung = _rung_of(ill, look.fleet)
    is_last = rung == REPLACE or (not rung and is_replaced(known, look.fleet))
    if is_last and look.now < (replaced_at := _replaced_at(ill, look)):
        message = f"nobody is left on it, and another takes its place unless it recovers: {ill.reason}"
        return _in_state(known, "waiting", message, look.now, min(replaced_at, again))
    if not rung:
        return _in_state(known, "exhausted", _ending(ill, look.fleet), look.now, again)
    if rung == EVACUATE and ill.instance.id in look.stranded:
        return _in_state(known, "exhausted", look.stranded[ill.instance.id], look.now, again)
    if other and _takes_turn(rung):
        return _waiting_for(other, known, look)
    return _taken(ill, rung, look)


def _begins_at(ill: Illness, policy: RemedyPolicy) -> datetime:
    """When the first remedy comes: as a look has found it since the instance was well, or earlier.

    An instance that is out of reach by turns, and down all the time, is as it is since the last turn only.
    """
    begins_at, known = ill.health.since + policy.after, ill.known
    return min(begins_at, known.due_at) if known.state == "waiting" and known.due_at is not None else begins_at


def _replaced_at(ill: Illness, look: Look) -> datetime:
    """When an evacuated instance is retired, which harms nobody until then; at once if all that is left is to tell.

    That may have been told while it was out of reach: once it can be reached again it has all of the time to recover.
    """
    if not is_replaceable(ill.instance, look.fleet):
        return look.now
    since = ill.health.since
    if REPLACE not in ill.known.remedies:
        since = max(since, ill.known.since if ill.known.state == "waiting" else look.now)
    return since + look.policy.replace_after


def _rung_of(ill: Illness, fleet: Fleet) -> str:
    """The next one; an evacuation goes on until nobody is left."""
    rung = next_rung(ill.health, ill.known.remedies)
    is_begun = EVACUATE in ill.known.remedies and ill.health.is_down
    is_over = not any(tenant.engine_instance_id == ill.instance.id for tenant in fleet.tenants.values())
    return EVACUATE if rung in ("", REPLACE) and is_begun and not is_over else rung


def _taken(ill: Illness, rung: str, look: Look) -> Remediation:
    """At this rung from now on. An evacuation that goes on is the one that it was."""
    known, now = ill.known, look.now
    if rung in known.remedies:
        return _in_state(replace(known, rung=rung), "acting", ill.reason, now, _look(now, look.policy))
    taken = replace(
        known,
        state="exhausted" if rung == REPLACE else "acting",
        number=max(known.number + 1, round(now.timestamp() * 1000)),
        rung=rung,
        tried=canonical([*known.remedies, rung]),
        is_cordoned=known.is_cordoned or rung in (CORDON, EVACUATE, REPLACE),
        message=ill.reason,
        since=now,
        due_at=None,
    )
    if rung == REPLACE:
        message = _ending(replace(ill, known=taken), look.fleet)
        return replace(taken, message=message, due_at=_look(now, look.policy))
    if rung == REAPPLY and _is_idle(rung, ill):
        taken = replace(taken, message=f"by hand alone, as it was installed: {ill.reason}")
    return _with_due_time(replace(ill, known=taken), look)


def _ending(ill: Illness, fleet: Fleet) -> str:
    """What is told of one for which nothing else is done."""
    if not is_replaced(ill.known, fleet):
        return f"nothing else helps: {ill.reason}"
    if is_replaceable(ill.instance, fleet):
        return f"it is retired, and another takes its place: {ill.reason}"
    if ill.instance.is_leaving:
        retire = f"'gitopsctl engines retire {ill.instance.id}' gives it up"
        return f"it is {ill.instance.state} and not replaced; {retire}: {ill.reason}"
    return f"it has to be replaced by hand, nobody is left on it: {ill.reason}"


def _of_others(row: Remediation, fleet: Fleet, now: datetime, policy: RemedyPolicy) -> Remediation:
    """Of one that is healthy, or retired, or of which nobody has told anything since a rebuild."""
    health = fleet.health.get(row.engine_instance_id)
    if row.state == "well":
        return row
    if fleet.instances[row.engine_instance_id].is_retired:
        return _well(row, now, "it is retired")
    if health is None or not health.is_working:
        untold = "no agent has told how it is"
        return _in_state(row, "waiting", untold, now, _look(now, policy)) if row.rung else _well(row, now, untold)
    well_at = health.since + policy.recovered_after
    if now >= well_at or not row.rung:
        return _well(row, now, "it is healthy")
    return _in_state(row, "recovering", "it is healthy, but not for long", now, well_at)


def _well(row: Remediation, now: datetime, message: str) -> Remediation:
    return replace(row, state="well", rung="", tried="[]", is_cordoned=False, message=message, since=now, due_at=None)


def _in_state(row: Remediation, state: RemediationState, message: str, now: datetime, due: datetime) -> Remediation:
    since = row.since if row.state == state else now
    return replace(row, state=state, message=message, since=since, due_at=due)


def _look(now: datetime, policy: RemedyPolicy) -> datetime:
    return now + policy.cool_down * LOOK_AGAIN


def _new(instance: str, now: datetime) -> Remediation:
    return Remediation(instance, "waiting", 0, "", "[]", is_cordoned=False, message="", since=now, due_at=None)
