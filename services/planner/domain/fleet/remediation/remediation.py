"""Which remedy comes next for engine instances that are ill, or were until now. Pure.

Remedies are the rungs of a ladder (``rungs.py``, ``ladder.py``), and each has a time to help (``remedy_time.py``). A
degraded instance still deploys: all rungs that may help are tried. An instance that is down is evacuated after one
remedy. When no tenant is left on it, and it has not recovered for a while, it is replaced if a provisioner has
installed it; otherwise operators have to replace it (``next_remedy.py``).

One instance of each ring is remedied at a time, so that a remedy that harms does so once. Instances that are down have
their turn before degraded ones, and drained ones have it last. An instance that only waits for its tenants to leave
holds up no other. Instances of a cluster that an operator drains do not wait for each other.

If too many instances are ill at once, the cause is shared (``illnesses.py``): these instances are ``held``, planners do
not touch them, and none of their evacuations' moves begins. If an agent's remedy is held before it has had its time, it
does not count as tried and is taken anew later, unless the agent has reported on it.

An instance that has been healthy for a while is well: its cordon is lifted, and the ladder begins anew the next time.
``remedy_orders.py`` calls this and carries out what is decided.
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
    """The rows that change; that of the instance which has been ill longest is first.

    Args:
        fleet: all rows; all tenants, if one of the instances may be evacuated.
        remediations: all rows, by instance.
        now: the time.
        policy: what operators have set.
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
    """The rows of ill instances, of each ring one at a time.

    An instance has its turn for as long as its remedy may help. Then the others have theirs, in the order of
    :func:`_precedence`.
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
    """By which the next turn is given, to the least first.

    Drained instances are last, and those that are down come before degraded ones. Among these, those come first whose
    tenants do not leave yet, because these tenants wait for the remedy; then those with a remedy under way.
    """
    is_evacuated = ill.remediation.has_tried(EVACUATE)
    return ill.instance.is_drained, not ill.health.is_down, is_evacuated, ill.remediation.state != "acting"


def _turn_key(ill: Illness, look: Look) -> tuple[str, str]:
    """What one instance at a time is remedied of: its ring; or itself alone, if its cluster is drained and given up."""
    is_given_up = is_cluster_drained(ill.instance, look.fleet)
    return ("instance", ill.instance.id) if is_given_up else ("ring", ill.instance.ring)


def _suspend_remedy(ill: Illness, message: str, look: Look) -> Remediation:
    """The row of an instance that is held. An agent's remedy with time left does not count as tried any more."""
    row = ill.remediation
    if row.is_of_agent and may_help_yet(as_going_on(ill), look):
        row = replace(row, tried=canonical([each for each in row.remedies if each != row.rung]))
    return row.with_state("held", message, look.now, look.next_at)


def _row_of_not_ill(row: Remediation, look: Look) -> Remediation:
    """The row of an instance that is not ill: healthy, retired, or without any report since a rebuild."""
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
