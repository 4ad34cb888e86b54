"""What Argo CD would write next to an Application. Pure, level-based: the answer follows from the object alone.

Called with each state of an Application that the watch shows; None means that nothing is to be done about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from devstack.argocd_simulator.application import (
    comparison_of,
    has_failed,
    health_of,
    is_automated,
    is_compared,
    is_synced,
    operation_state,
    resource_of,
    revision_of,
    same_sync,
    source_of,
    status_of,
    synced_result,
)
from services.common.kubernetes import Manifest
from services.common.times import rfc3339

FINALIZERS = frozenset(
    {
        "resources-finalizer.argocd.argoproj.io",
        "resources-finalizer.argocd.argoproj.io/background",
        "resources-finalizer.argocd.argoproj.io/foreground",
    }
)
REFRESH = "argocd.argoproj.io/refresh"
"""Annotation by which a comparison is asked for."""
COMPARISON_ERROR = "simulate/comparison-error"
STUCK_DELETION = "simulate/stuck-deletion"
SLOW_SYNC = "simulate/slow-sync"
FAILING_SYNC = "simulate/failing-sync"
SILENT = "simulate/silent"

ERROR_MESSAGE = (
    "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = "
    f"{COMPARISON_ERROR}: app path does not exist"
)
AUTOMATION: Manifest = {"initiatedBy": {"automated": True}, "sync": {}}
SYNCED_MESSAGE = "successfully synced (all tasks run)"
FAILED_MESSAGE = f"one or more objects failed to apply, reason: {FAILING_SYNC}: admission webhook denied the request"
TERMINATED_MESSAGE = "Operation terminated"


@dataclass(frozen=True, slots=True)
class Response:
    """A merge patch, and whether it comes only after the time a sync takes."""

    patch: Manifest
    after_sync: bool = False


def respond(application: Manifest, now: datetime, writes_per_sync: int = 2) -> Response | None:
    """What to write to ``application`` next."""
    meta, path = application["metadata"], source_of(application).get("path", "")
    if meta.get("deletionTimestamp"):
        return None if path == STUCK_DELETION else _release(meta)
    if path == SILENT:
        return None
    if path == COMPARISON_ERROR:
        answer = _comparison_error(application, now)
    else:
        answer = _synchronize(application, now, writes_per_sync)
    return answer or _refresh(application, now)


def _release(meta: Manifest) -> Response | None:
    """What was deployed is gone: Argo CD's finalizer may go."""
    finalizers = meta.get("finalizers") or []
    kept = [finalizer for finalizer in finalizers if finalizer not in FINALIZERS]
    if len(kept) == len(finalizers):
        return None
    return Response({"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": kept}})


def _comparison_error(application: Manifest, now: datetime) -> Response | None:
    sync = {"status": "Unknown", "comparedTo": comparison_of(application)}
    known = status_of(application)
    if known.get("conditions") and same_sync(known, sync):
        return None
    condition = {"type": "ComparisonError", "message": ERROR_MESSAGE, "lastTransitionTime": rfc3339(now)}
    return _write(conditions=[condition], sync=sync, health={"status": "Healthy"}, reconciledAt=rfc3339(now))


def _refresh(application: Manifest, now: datetime) -> Response | None:
    """Somebody asks for a comparison, which finds what the last one did."""
    if REFRESH not in (application["metadata"].get("annotations") or {}):
        return None
    return Response({"metadata": {"annotations": {REFRESH: None}}} | _status_patch(reconciledAt=rfc3339(now)))


def _synchronize(application: Manifest, now: datetime, writes_per_sync: int) -> Response | None:
    """Run what was asked for by ``.operation`` or by automation; otherwise only compare.

    As in Argo CD ``.operation`` stays until the operation has ended; without it no phase is looked at.
    """
    state = operation_state(application)
    if application.get("operation") is not None:
        if state.get("phase") == "Terminating":
            return _end(state | {"phase": "Failed", "message": TERMINATED_MESSAGE}, now)
        if state.get("phase") == "Running":
            return _go_on(application, state, now)
        return _begin(application, now, writes_per_sync)
    if is_automated(application) and not is_synced(application) and not has_failed(application):
        return _begin(application, now, writes_per_sync)
    return None if is_compared(application) else compare_only(application, now)


def _begin(application: Manifest, now: datetime, writes_per_sync: int) -> Response:
    # What somebody asked for is there already; it is not written again, he may just be taking it back.
    own = {} if application.get("operation") is not None else {"operation": AUTOMATION}
    operation = application.get("operation") or AUTOMATION
    revision = revision_of(application)
    state = {
        "operation": operation | {"sync": (operation.get("sync") or {}) | {"revision": revision}},
        "phase": "Running",
        "startedAt": rfc3339(now),
        "finishedAt": None,
        "message": None,
        "syncResult": {"revision": revision, "source": source_of(application)},
    }
    finished = _go_on(application, state, now) if writes_per_sync == 1 else None
    return finished or Response(own | {"status": {"operationState": state}})


def _go_on(application: Manifest, running: Manifest, now: datetime) -> Response | None:
    path = source_of(application).get("path")
    if path == SLOW_SYNC:
        return None
    if path == FAILING_SYNC:
        return _end(running | {"phase": "Failed", "message": FAILED_MESSAGE}, now)
    return finish(application, running, now)


def _end(ended: Manifest, now: datetime) -> Response:
    """Without a success; what was compared before is still true."""
    patch = _status_patch(operationState=ended | {"finishedAt": rfc3339(now)}, reconciledAt=rfc3339(now))
    return Response(patch | {"operation": None}, after_sync=ended["message"] != TERMINATED_MESSAGE)


def finish(application: Manifest, running: Manifest, now: datetime) -> Response:
    """End the operation; if the source changed while it ran, the comparison says so and the next one follows."""
    result = running["syncResult"]
    is_current = result["source"] == source_of(application)
    ended = running | {"phase": "Succeeded", "finishedAt": rfc3339(now), "message": SYNCED_MESSAGE}
    resource = resource_of(application)
    state = ended | {"syncResult": result | {"resources": [synced_result(resource)]}}
    health = health_of(application)
    resources = [resource | {"status": "Synced" if is_current else "OutOfSync", "health": health}]
    sync = {
        "status": "Synced" if is_current else "OutOfSync",
        "revision": result["revision"],
        "comparedTo": comparison_of(application),
    }
    patch = _status_patch(
        operationState=state,
        sync=sync,
        health=health,
        resources=resources,
        conditions=None,
        reconciledAt=rfc3339(now),
    )
    return Response(patch | {"operation": None}, after_sync=True)


def compare_only(application: Manifest, now: datetime) -> Response:
    """A manual Application shows that it is out of sync until it is told to sync."""
    was_synced = operation_state(application).get("phase") == "Succeeded"
    health = health_of(application) if was_synced else {"status": "Missing"}
    sync = {"status": "OutOfSync", "revision": revision_of(application), "comparedTo": comparison_of(application)}
    resources = [resource_of(application) | {"status": "OutOfSync", "health": health}]
    return _write(sync=sync, health=health, resources=resources, conditions=None, reconciledAt=rfc3339(now))


def _write(**parts: Any) -> Response:
    return Response(_status_patch(**parts))


def _status_patch(**parts: Any) -> Manifest:
    return {"status": parts}
