"""Our part of a Snapshot's status: that it exceeds the quota. It is empty for a Snapshot that never did."""

from __future__ import annotations

from services.common.json_values import canonical, dicts_of
from services.kinds.shared.catalogue import QUOTA_EXCEEDED, RESOLVED
from services.kinds.shared.conditions import parsed_status, with_probe_time, with_states
from services.kinds.shared.kind import StatusInputs

QUOTA_CONDITIONS = "quotaConditions"


def snapshot_status(inputs: StatusInputs) -> str:
    """Canonical JSON of our member; ``previous`` if nothing has changed."""
    known = dicts_of(parsed_status(inputs.previous).get(QUOTA_CONDITIONS))
    if inputs.resource.over_quota:
        state = (QUOTA_EXCEEDED.status, QUOTA_EXCEEDED.reason, inputs.limits.message(inputs.resource.kind))
    elif known:
        state = RESOLVED.state
    else:
        return inputs.previous
    conditions = with_states(known, {QUOTA_EXCEEDED.type: state}, inputs.at)
    if conditions == known:
        return inputs.previous
    return canonical({QUOTA_CONDITIONS: with_probe_time(conditions, inputs.at)})
