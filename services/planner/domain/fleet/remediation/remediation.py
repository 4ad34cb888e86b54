"""Which remedy comes next for engine instances that are not well. Pure: it decides, and changes nothing.

Remedies are the rungs of a ladder, each with the time that it may take to help (``ladder.py``, ``remedy_time.py``).
What is degraded still deploys: all that may help is tried. What is down is evacuated after one remedy, and when nobody
is left on it, and it does not recover for a while, it is replaced if a provisioner has installed it; or else a person
is told so (``next_remedy.py``).

Of each ring one instance at a time, so that a remedy that harms does so once. What is down has its turn before what is
degraded, and while one does no more than wait for its tenants to leave, the next has. One that is drained has its turn
last, and those of a cluster that an operator drains do not wait for each other. If too many are ill at once the cause
is shared (``illnesses.py``), and none of these is touched, and no move of an evacuation begins. A remedy of an agent
that was held before it had had its time is not tried: it is taken anew then, unless the agent has told of it.

An instance that has been healthy for a while is well: its cordon is lifted, and the next time the ladder begins anew.
``remedy_orders.py`` calls this, and carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from services.common.json_values import canonical
from services.planner.domain.fleet.fleet import Fleet
from services.planner.domain.fleet.remediation.illnesses import (
    Illness,
    Look,
    find_illnesses,
    find_shared_causes,
    is_cluster_drained,
)
from services.planner.domain.fleet.remediation.next_remedy import decide_next_remedy
from services.planner.domain.fleet.remediation.remediation_rows import Remediation
from services.planner.domain.fleet.remediation.remedy_time import as_going_on, may_help_yet, with_due_time
from services.planner.domain.fleet.remediation.rungs import EVACUATE
from services.planner.domain.policy import RemedyPolicy


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
    rows = {name: row for name, row in remediations.items() if name in fleet.instances}
    if not policy.is_on:
        return [row.without_remedies("remediation is off", now) for row in rows.values() if row.state != "well"]
    look, ill = Look(fleet, now, policy, stranded), find_illnesses(rows, fleet, now)
    after = {name: _row_of_not_ill(row, look) for name, row in rows.items() if name not in ill}
    suspended = find_shared_causes(ill, fleet)
    after |= {name: _suspend_remedy(ill[name], message, look) for name, message in suspended.items()}
    after |= _rows_of_ill([each for name, each in ill.items() if name not in suspended], look)
    return [row for name, row in after.items() if row != remediations.get(name)]


def _rows_of_ill(illnesses: Sequence[Illness], look: Look) -> dict[str, Remediation]:
    """One instance of each ring at a time, for as long as a remedy may help.

    Then it is the turn of what is down, and of these first of those whose tenants wait and do not leave yet. Next, what
    is under way goes on, before others begin, and drained ones are last.
    """
    helped = {each.instance.id: each for each in illnesses if may_help_yet(each, look)}
    found = {name: with_due_time(each, look) for name, each in helped.items()}
    busy = {_turn_key(each, look): name for name, each in helped.items() if each.remediation.newest.takes_turn}
    others = [each for each in illnesses if each.instance.id not in helped]
    for each in sorted(others, key=_precedence):
        row = decide_next_remedy(each, busy.get(_turn_key(each, look), ""), look)
        found[row.engine_instance_id] = row
        if row.state == "acting" and row.newest.takes_turn:
            busy[_turn_key(each, look)] = row.engine_instance_id
    return found


def _precedence(ill: Illness) -> tuple[bool, bool, bool, bool]:
    """Whose turn is next: who is less in this. Of one whose tenants leave already nobody waits for a remedy."""
    is_evacuated = ill.remediation.has_tried(EVACUATE)
    return ill.instance.is_drained, not ill.health.is_down, is_evacuated, ill.remediation.state != "acting"


def _turn_key(ill: Illness, look: Look) -> tuple[str, str]:
    """What one at a time is remedied of: a ring, or the instance alone, as a cluster that is drained is given up."""
    is_given_up = is_cluster_drained(ill.instance, look.fleet)
    return ("instance", ill.instance.id) if is_given_up else ("ring", ill.instance.ring)


def _suspend_remedy(ill: Illness, message: str, look: Look) -> Remediation:
    """Without its remedy among those tried, if that has time yet: no agent may act, and so it is taken anew."""
    row = ill.remediation
    if row.is_of_agent and may_help_yet(as_going_on(ill), look):
        row = replace(row, tried=canonical([each for each in row.remedies if each != row.rung]))
    return row.with_state("held", message, look.now, look.next_at)


def _row_of_not_ill(row: Remediation, look: Look) -> Remediation:
    """Of one that is healthy, or retired, or of which nobody has told anything since a rebuild."""
    health = look.fleet.health.get(row.engine_instance_id)
    if row.state == "well":
        return row
    if look.fleet.instances[row.engine_instance_id].is_retired:
        return row.without_remedies("it is retired", look.now)
    if health is None or not health.is_working:
        unreported = "no agent has told how it is"
        if not row.rung:
            return row.without_remedies(unreported, look.now)
        return row.with_state("waiting", unreported, look.now, look.next_at)
    well_at = health.since + look.policy.recovered_after
    if look.now >= well_at or not row.rung:
        return row.without_remedies("it is healthy", look.now)
    return row.with_state("recovering", "it is healthy, but not for long", look.now, well_at)
