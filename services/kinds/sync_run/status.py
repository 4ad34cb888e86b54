"""The status of a GitOpsDeploymentSyncRun: its errors, and the progress of its sync.

It is also read back. An engine shows only the newest sync of a deployment, so after a loss of the database and of
agents' reports, only the status has the outcome of an older run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from services.common.json_values import dict_of, dicts_of, text_of
from services.common.messages import SyncMoved
from services.kinds.shared.catalogue import ERROR, UNKNOWN_ERROR
from services.kinds.shared.conditions import Refused, compile_status, parsed_status, recurring_states, throttling
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.text import MAX_REFUSAL, readable
from services.kinds.sync_run import catalogue as texts
from services.kinds.sync_run.rows import SyncRun
from services.kinds.sync_run.rules import ACTIVE, FAILED, FINAL, OVER, moved, started
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


def recalled(run: SyncRun, resource: PlainResource, status: str) -> SyncRun:
    """``run`` with what the status of its resource (JSON text) says, if that is more.

    Statuses are compiled from rows, so a status is ahead of its row only if rows were lost. A run that has ended, was
    refused or had begun is not started again.
    """
    written = parsed_status(status)
    operation, error = dict_of(written.get("operation")), _written_error(written)
    if run.state in OVER:
        return run
    if operation.get("message") == NEVER_RUNS:
        return replace(run, state="Refused", message=readable(error)[:MAX_REFUSAL])
    if not operation and error == texts.DEPLOYMENT_DELETED.message:
        return replace(run, state="Ended", phase="Error", message=error)
    shown = _shown_operation(resource, operation)
    if shown.phase in FINAL:
        return moved(run if run.state in ACTIVE else started(run, resource, None, 0), shown)
    if run.phase or not shown.started_at:
        return run
    begun = moved(replace(run, state="Running"), replace(shown, phase="Running"))
    return replace(begun, state=run.state, message=run.message)


def _shown_operation(resource: PlainResource, operation: dict[str, Any]) -> SyncMoved:
    """The operation in the status, in the form of an agent's report."""
    names = ("phase", "message", "revision", "startedAt", "finishedAt")
    return SyncMoved(resource.uid, *(text_of(operation.get(name)) for name in names))


def _written_error(status: dict[str, Any]) -> str:
    conditions = dicts_of(status.get("conditions"))
    return next((text_of(each.get("message")) for each in conditions if each.get("type") == ERROR), "")


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
    """The errors of a changed spec, which has no effect: a run stays what it was first seen to be."""
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
    """``status.operation``; empty for a run that ended before it began."""
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
