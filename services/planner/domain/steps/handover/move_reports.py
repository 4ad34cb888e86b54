"""What agents report of the objects that a move is about: it is kept with the move, until no step needs it any more.

The target's agent reports whether it has made an object, and whether credentials work there; the source's, which
Applications are gone. Nothing else follows from that. What is reported of the tenant's own instance is taken in by
``observed_state.py``, which calls this about Applications that the source has released; ``plan.py`` calls it with what
other instances report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from services.common.errors import Permanent
from services.common.json_values import canonical
from services.common.messages import Applied, Checked, Failed, Observation, Removed
from services.kinds.shared.resource import Cause
from services.planner.domain.fleet.rows import Move
from services.planner.domain.planned_tenant import PlannedTenant
from services.planner.rows.compiled import TENANT, EngineObjectKey

FAILED = "Failed"
"""Reported of an object that its agent will never make."""
Reported = Mapping[str, Sequence[str]]
"""Digest, reason and message that an agent reported last of an object, by kind/name."""


def observe_elsewhere(planned: PlannedTenant, seen: Observation, cause: Cause) -> PlannedTenant:
    """What the agent of another instance than the tenant's reports of an object there."""
    key, there = (seen.kind, seen.name), planned.state.on_instance(seen.engine_instance_id)
    held = there.objects.get(key)
    if held is None:
        return planned
    if isinstance(seen.event, Removed):
        gone = planned.state._replace(held=there.without_objects(key).held)
        return planned if held.is_desired else planned._replace(state=gone, cause=cause)
    move = planned.state.move
    match seen.event:
        case _ if move is None or move.target != seen.engine_instance_id:
            pass  # what the target has to have is called the same where a part of the tenant is
        case Checked(digest=digest, reason=reason, message=message) if digest == held.digest:
            return _reported(planned, key, (digest, reason, message))
        case Applied(digest=digest) if digest == held.digest and held.owner.kind == TENANT:
            return _reported(planned, key, (digest, "", ""))
        case Failed(digest=digest, message=message) if digest == held.digest:
            return _reported(planned, key, (digest, FAILED, message))
    return planned


def observe_release(planned: PlannedTenant, key: EngineObjectKey) -> PlannedTenant:
    """The source has no Application of this name any more; what it deployed is there."""
    return _reported(planned, key, ("", "", ""))


def _reported(planned: PlannedTenant, key: EngineObjectKey, report: Sequence[str]) -> PlannedTenant:
    """With another report of an object, in place of the one before."""
    move = planned.state.move
    if move is None:
        return planned
    text = canonical({**parse_reports(move), name_object(key): list(report)})
    return planned.with_state(planned.state._replace(move=replace(move, reported=text)))


def parse_reports(move: Move) -> Reported:
    """What agents have reported of objects, as far as a step of the move needs it. Raises Permanent."""
    found = orjson.loads(move.reported)
    if not isinstance(found, dict):
        raise Permanent("what was reported of a move is no mapping")
    return found


def find_report(key: EngineObjectKey, reported: Reported) -> tuple[str, str, str]:
    """Digest, reason and message that were reported last of an object; empty if nothing was."""
    digest, reason, message = (*reported.get(name_object(key), ()), "", "", "")[:3]
    return digest, reason, message


def name_object(key: EngineObjectKey) -> str:
    """An object as reports are kept by, and as operators are told: ``KIND/NAME``."""
    return "/".join(key)
