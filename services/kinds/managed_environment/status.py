"""The status of a GitOpsDeploymentManagedEnvironment: whether its cluster can be reached."""

from __future__ import annotations

from services.kinds.managed_environment import catalogue as texts
from services.kinds.shared.catalogue import ERROR, THROTTLED, Reason
from services.kinds.shared.conditions import (
    ConditionState,
    Refused,
    compile_status,
    parsed_status,
    recurring_states,
    throttling,
)
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import Check

_STATUS = {entry.reason: entry.status for entry in texts.ENTRIES if entry.type == texts.CONNECTION}


def environment_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed."""
    resource, previous, refused = inputs.resource, inputs.previous, refusal_of(inputs.resource)
    before = parsed_status(previous)
    beyond_quota = refused if refused is not None and refused.reason == Reason.QUOTA_EXCEEDED else None
    errors = {ERROR: (ERROR, beyond_quota.message)} if beyond_quota else {}
    others = recurring_states({**errors, **throttling(resource.held_back_ms)}, before, (ERROR, THROTTLED))
    connection = _connection(refused, inputs.check, inputs.digest)
    return compile_status(previous, {texts.CONNECTION: connection} | others, inputs.at)


def _connection(refused: Refused | None, check: Check | None, digest: str | None) -> ConditionState:
    if refused is not None:
        return (refused.status, refused.reason, refused.message)
    if check is None or check.digest != digest:
        return ("Unknown", Reason.CHECKING, texts.CHECKING.message)
    return (_STATUS.get(check.reason, "Unknown"), check.reason, check.message)
