"""What Argo CD would write next to an Application. Pure, level-based: the answer follows from the object alone.

Called with each state of an Application that the watch shows; None means that nothing is to be done about it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.common.kube import Manifest
from services.common.times import rfc3339

FINALIZERS = frozenset(
    {
        "resources-finalizer.argocd.argoproj.io",
        "resources-finalizer.argocd.argoproj.io/background",
        "resources-finalizer.argocd.argoproj.io/foreground",
    }
)
DEGRADED = "simulate/degraded"
COMPARISON_ERROR = "simulate/comparison-error"
STUCK_DELETION = "simulate/stuck-deletion"
SLOW_SYNC = "simulate/slow-sync"
FAILING_SYNC = "simulate/failing-sync"
SILENT = "simulate/silent"

COMMIT = re.compile(r"[0-9a-f]{40}")

ERROR_MESSAGE = (
    "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: code = Unknown desc = "
    f"{COMPARISON_ERROR}: app path does not exist"
)
AUTOMATION: Manifest = {"initiatedBy": {"automated": True}, "sync": {}}
SYNCED_MESSAGE = "successfully synced (all tasks run)"
FAILED_MESSAGE = f"one or more objects failed to apply, reason: {FAILING_SYNC}: admission webhook denied the request"
TERMINATED_MESSAGE = "Operation terminated"
DEGRADED_MESSAGE = 'Deployment "guestbook" exceeded its progress deadline'


@dataclass(frozen=True, slots=True)
class Response:
    """A merge patch, and whether it comes only after the time a sync takes."""

    patch: Manifest
    after_sync: bool = False


def respond(application: Manifest, now: datetime, writes_per_sync: int = 2) -> Response | None:
    """What to write to ``application`` next."""
    meta, path = application["metadata"], _source(application).get("path", "")
    if meta.get("deletionTimestamp"):
        return None if path == STUCK_DELETION else _release(meta)
    if path == SILENT:
        return None
    if path == COMPARISON_ERROR:
        return _comparison_error(application, now)
    return _synchronize(application, now, writes_per_sync)


def revision_of(application: Manifest) -> str:
    """The commit that the target revision seems to name, or the one an operation asks for."""
    asked = ((application.get("operation") or {}).get("sync") or {}).get("revision")
    source = _source(application)
    if asked and COMMIT.fullmatch(asked):
        return str(asked)
    name = f"{source.get('repoURL', '')}@{asked or source.get('targetRevision', 'HEAD')}"
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()


def _release(meta: Manifest) -> Response | None:
    """What was deployed is gone: Argo CD's finalizer may go."""
    finalizers = meta.get("finalizers") or []
    kept = [finalizer for finalizer in finalizers if finalizer not in FINALIZERS]
    if len(kept) == len(finalizers):
        return None
    return Response({"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": kept}})


def _comparison_error(application: Manifest, now: datetime) -> Response | None:
    sync = {"status": "Unknown", "comparedTo": _compared(application)}
    known = _status(application)
    if known.get("conditions") and _same_sync(known, sync):
        return None
    condition = {"type": "ComparisonError", "message": ERROR_MESSAGE, "lastTransitionTime": rfc3339(now)}
    return _write(conditions=[condition], sync=sync, health={"status": "Healthy"}, reconciledAt=rfc3339(now))


def _synchronize(application: Manifest, now: datetime, writes_per_sync: int) -> Response | None:
    """Run what was asked for by ``.operation`` or by automation; otherwise only compare.

    As in Argo CD ``.operation`` stays until the operation has ended; without it no phase is looked at.
    """
    state = _operation_state(application)
    if application.get("operation") is not None:
        if state.get("phase") == "Terminating":
            return _end(state | {"phase": "Failed", "message": TERMINATED_MESSAGE}, now)
        if state.get("phase") == "Running":
            return _go_on(application, state, now)
        return _begin(application, now, writes_per_sync)
    if _is_automated(application) and not _is_synced(application) and not _has_failed(application):
        return _begin(application, now, writes_per_sync)
    return None if _is_compared(application) else _compare_only(application, now)


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
        "syncResult": {"revision": revision, "source": _source(application)},
    }
    finished = _go_on(application, state, now) if writes_per_sync == 1 else None
    return finished or Response(own | {"status": {"operationState": state}})


def _go_on(application: Manifest, running: Manifest, now: datetime) -> Response | None:
    path = _source(application).get("path")
    if path == SLOW_SYNC:
        return None
    if path == FAILING_SYNC:
        return _end(running | {"phase": "Failed", "message": FAILED_MESSAGE}, now)
    return _finish(application, running, now)


def _end(ended: Manifest, now: datetime) -> Response:
    """Without a success; what was compared before is still true."""
    patch = _status_patch(operationState=ended | {"finishedAt": rfc3339(now)}, reconciledAt=rfc3339(now))
    return Response(patch | {"operation": None}, after_sync=ended["message"] != TERMINATED_MESSAGE)


def _finish(application: Manifest, running: Manifest, now: datetime) -> Response:
    """End the operation; if the source changed while it ran, the comparison says so and the next one follows."""
    result = running["syncResult"]
    is_current = result["source"] == _source(application)
    ended = running | {"phase": "Succeeded", "finishedAt": rfc3339(now), "message": SYNCED_MESSAGE}
    resource = _resource(application)
    state = ended | {"syncResult": result | {"resources": [_synced(resource)]}}
    health = _health(application)
    resources = [resource | {"status": "Synced" if is_current else "OutOfSync", "health": health}]
    sync = {
        "status": "Synced" if is_current else "OutOfSync",
        "revision": result["revision"],
        "comparedTo": _compared(application),
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


def _compare_only(application: Manifest, now: datetime) -> Response:
    """A manual Application shows that it is out of sync until it is told to sync."""
    was_synced = _operation_state(application).get("phase") == "Succeeded"
    health = _health(application) if was_synced else {"status": "Missing"}
    sync = {"status": "OutOfSync", "revision": revision_of(application), "comparedTo": _compared(application)}
    resources = [_resource(application) | {"status": "OutOfSync", "health": health}]
    return _write(sync=sync, health=health, resources=resources, conditions=None, reconciledAt=rfc3339(now))


def _write(**parts: Any) -> Response:
    return Response(_status_patch(**parts))


def _status_patch(**parts: Any) -> Manifest:
    return {"status": parts}


def _is_automated(application: Manifest) -> bool:
    return (application["spec"].get("syncPolicy") or {}).get("automated") is not None


def _is_compared(application: Manifest) -> bool:
    """The status speaks of the present source and destination."""
    status = _status(application)
    return not status.get("conditions") and _same_compared(status, _compared(application))


def _is_synced(application: Manifest) -> bool:
    return _is_compared(application) and _status(application)["sync"]["status"] == "Synced"


def _has_failed(application: Manifest) -> bool:
    """Automation does not try the same source again."""
    state = _operation_state(application)
    return state.get("phase") == "Failed" and (state.get("syncResult") or {}).get("source") == _source(application)


def _same_sync(status: Manifest, sync: Manifest) -> bool:
    return (status.get("sync") or {}).get("status") == sync["status"] and _same_compared(status, sync["comparedTo"])


def _same_compared(status: Manifest, compared: Manifest) -> bool:
    """What Argo CD's CRD does not know is dropped by the API server: only what we wrote is looked at."""
    known = (status.get("sync") or {}).get("comparedTo") or {}
    return all(known.get(part) == compared[part] for part in compared)


def _compared(application: Manifest) -> Manifest:
    return {"source": _source(application), "destination": application["spec"].get("destination") or {}}


def _source(application: Manifest) -> Manifest:
    return application["spec"].get("source") or {}


def _status(application: Manifest) -> Manifest:
    return application.get("status") or {}


def _operation_state(application: Manifest) -> Manifest:
    return _status(application).get("operationState") or {}


def _health(application: Manifest) -> Manifest:
    if _source(application).get("path") == DEGRADED:
        return {"status": "Degraded", "message": DEGRADED_MESSAGE}
    return {"status": "Healthy", "message": None}


def _resource(application: Manifest) -> Manifest:
    namespace = (application["spec"].get("destination") or {}).get("namespace", "")
    return {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": namespace, "name": "guestbook"}


def _synced(resource: Manifest) -> Manifest:
    return resource | {"status": "Synced", "syncPhase": "Sync", "hookPhase": "Running", "message": "configured"}
