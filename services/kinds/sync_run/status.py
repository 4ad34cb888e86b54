"""The status of a GitOpsDeploymentSyncRun: what is wrong with it, and how far its sync has come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from services.kinds.shared.catalogue import ERROR, UNKNOWN_ERROR
from services.kinds.shared.conditions import Refused, compile_status, parsed_status, recurring_states, throttling
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import PlainResource
from services.kinds.sync_run import catalogue as texts
from services.kinds.sync_run.rows import SyncRun
from services.kinds.sync_run.rules import FAILED
from services.kinds.sync_run.validation import accept

NEVER_RUNS = "this run was refused and never takes place, whatever changes; create another one"


def sync_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed."""
    resource, run, previous = inputs.resource, inputs.own, inputs.previous
    if not isinstance(run, SyncRun):
        raise TypeError("the status of a sync run follows from its row")
    error = next(_errors(run, inputs), "")
    own = {ERROR: ("True", ERROR, error) if error else ("False", "", "")}
    throttled = recurring_states(throttling(resource.held_back_ms), parsed_status(previous))
    operation = _operation(run)
    return compile_status(previous, own | throttled, inputs.at, {"operation": operation} if operation else {})


def _errors(run: SyncRun, inputs: StatusInputs) -> Iterator[str]:
    resource = inputs.resource
    yield from _changes(resource, run)
    if run.state == "Refused":
        yield run.message
    if run.state == "Waiting" and resource.over_quota:
        yield inputs.limits.message(resource.kind)
    if run.state == "Waiting" and not inputs.target_exists:
        yield texts.DEPLOYMENT_NOT_FOUND.text(name=run.deployment_name)
    if run.phase in FAILED:
        yield run.message or UNKNOWN_ERROR.message


def _changes(resource: PlainResource, run: SyncRun) -> Iterable[str]:
    """A run is what it was first seen to be; a change of its spec is refused and has no effect."""
    try:
        spec = accept(resource)
    except Refused as refused:
        return [] if run.state == "Refused" else [refused.message]
    if not run.deployment_name:
        return []
    name, revision = spec.git_ops_deployment_name, spec.revision_id or ""
    renamed = [texts.NAME_CHANGED.message] if name != run.deployment_name else []
    return renamed + ([texts.REVISION_CHANGED.message] if revision != run.revision else [])


def _operation(run: SyncRun) -> dict[str, str]:
    """``status.operation``; nothing for a run that ended before it began."""
    if run.state == "Refused":
        return {"phase": "Error", "message": NEVER_RUNS}
    if run.state == "Waiting":
        return {"phase": "Waiting"} | ({"message": run.message} if run.message else {})
    if run.sequence == 0:
        return {}
    phase = run.state if run.state == "Terminating" else run.phase or "Running"
    operation = {
        "phase": phase,
        "message": run.message,
        "revision": run.synced_revision,
        "startedAt": run.started_at,
        "finishedAt": run.finished_at,
    }
    return {name: value for name, value in operation.items() if value}
