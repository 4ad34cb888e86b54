"""What agents report about the objects of a move. It is stored with the move until no step needs it.

The target's agent reports whether it has made an object, and whether credentials work there. The source's agent reports
which Applications are gone. Nothing else depends on these reports. ``plan.py`` calls this with reports of other
instances than the tenant's own. Reports of its own instance go to ``observed_state.py``, which calls this for
Applications that the source has released.
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
"""The reason of an object that its agent will never make."""
Reported = Mapping[str, Sequence[str]]
"""By kind/name of an object: the digest, reason and message that an agent reported last."""


def observe_elsewhere(planned: PlannedTenant, seen: Observation, cause: Cause) -> PlannedTenant:
    """The tenant after a report of an agent of another instance than the tenant's own, about an object there."""
    key, there = (seen.kind, seen.name), planned.state.on_instance(seen.engine_instance_id)
    stored = there.objects.get(key)
    if stored is None:
        return planned
    if isinstance(seen.event, Removed):
        gone = planned.state._replace(objects_by_instance=there.without_objects(key).objects_by_instance)
        return planned if stored.is_desired else planned._replace(state=gone, cause=cause)
    move = planned.state.move
    match seen.event:
        case _ if move is None or move.target != seen.engine_instance_id:
            pass  # what the target has to have is called the same where a part of the tenant is
        case Checked(digest=digest, reason=reason, message=message) if digest == stored.digest:
            return _reported(planned, key, (digest, reason, message))
        case Applied(digest=digest) if digest == stored.digest and stored.owner.kind == TENANT:
            return _reported(planned, key, (digest, "", ""))
        case Failed(digest=digest, message=message) if digest == stored.digest:
            return _reported(planned, key, (digest, FAILED, message))
    return planned


def observe_release(planned: PlannedTenant, key: EngineObjectKey) -> PlannedTenant:
    """The tenant once the source no longer has an Application of this name. What it deployed stays."""
    return _reported(planned, key, ("", "", ""))


def _reported(planned: PlannedTenant, key: EngineObjectKey, report: Sequence[str]) -> PlannedTenant:
    """The reports with a newer one of an object."""
    move = planned.state.move
    if move is None:
        return planned
    text = canonical({**parse_reports(move), name_object(key): list(report)})
    return planned.with_state(planned.state._replace(move=replace(move, reported=text)))


def parse_reports(move: Move) -> Reported:
    """The reports about objects that a step of the move needs. Raises Permanent."""
    found = orjson.loads(move.reported)
    if not isinstance(found, dict):
        raise Permanent("what was reported of a move is no mapping")
    return found


def find_report(key: EngineObjectKey, reported: Reported) -> tuple[str, str, str]:
    """The digest, reason and message that were reported last of an object; empty if nothing was."""
    digest, reason, message = (*reported.get(name_object(key), ()), "", "", "")[:3]
    return digest, reason, message


def name_object(key: EngineObjectKey) -> str:
    """An object as ``KIND/NAME``: the key of reports, and what operators see."""
    return "/".join(key)
