"""What an Application says, as Argo CD and who plays it read it. Pure."""

from __future__ import annotations

import hashlib
import re

from services.common.kubernetes import Manifest

DEGRADED = "simulate/degraded"

COMMIT = re.compile(r"[0-9a-f]{40}")

DEGRADED_MESSAGE = 'Deployment "guestbook" exceeded its progress deadline'


def is_automated(application: Manifest) -> bool:
    """Argo CD syncs it by itself."""
    return (application["spec"].get("syncPolicy") or {}).get("automated") is not None


def is_compared(application: Manifest) -> bool:
    """The status speaks of the present source and destination."""
    known = status_of(application)
    return not known.get("conditions") and same_compared(known, comparison_of(application))


def is_synced(application: Manifest) -> bool:
    """And says that what is deployed is as in git."""
    return is_compared(application) and status_of(application)["sync"]["status"] == "Synced"


def has_failed(application: Manifest) -> bool:
    """Automation does not try the same source again."""
    state = operation_state(application)
    return state.get("phase") == "Failed" and (state.get("syncResult") or {}).get("source") == source_of(application)


def same_sync(status: Manifest, sync: Manifest) -> bool:
    """The status says the same of its comparison."""
    return (status.get("sync") or {}).get("status") == sync["status"] and same_compared(status, sync["comparedTo"])


def same_compared(status: Manifest, compared: Manifest) -> bool:
    """What Argo CD's CRD does not know is dropped by the API server: only what we wrote is looked at."""
    known = (status.get("sync") or {}).get("comparedTo") or {}
    return all(known.get(part) == compared[part] for part in compared)


def comparison_of(application: Manifest) -> Manifest:
    """What it is to be compared with, and where."""
    return {"source": source_of(application), "destination": application["spec"].get("destination") or {}}


def precise(patch: Manifest, application: Manifest) -> Manifest:
    """A merge patch that is refused if ``application`` is no longer so, and leaves nothing of what it replaces.

    One decided on an older state would begin an operation a second time; a former source would be merged into a new
    one, and a former run's name into automation's own operation.
    """
    version = {"resourceVersion": application["metadata"]["resourceVersion"]}
    return _merging(patch, application) | {"metadata": (patch.get("metadata") or {}) | version}


REPLACED = frozenset({"source", "destination", "operation"})


def _merging(patch: Manifest, live: Manifest) -> Manifest:
    return {
        name: (_replacing if name in REPLACED else _merging)(part, live[name])
        if isinstance(part, dict) and isinstance(live.get(name), dict)
        else part
        for name, part in patch.items()
    }


def _replacing(part: Manifest, live: Manifest) -> Manifest:
    return dict.fromkeys(live) | {
        name: _replacing(value, live[name]) if isinstance(value, dict) and isinstance(live.get(name), dict) else value
        for name, value in part.items()
    }


def source_of(application: Manifest) -> Manifest:
    """What it deploys."""
    return application["spec"].get("source") or {}


def status_of(application: Manifest) -> Manifest:
    """What was said of it."""
    return application.get("status") or {}


def operation_state(application: Manifest) -> Manifest:
    """What was said of its last operation."""
    return status_of(application).get("operationState") or {}


def health_of(application: Manifest) -> Manifest:
    """Of what it deployed."""
    if source_of(application).get("path") == DEGRADED:
        return {"status": "Degraded", "message": DEGRADED_MESSAGE}
    return {"status": "Healthy", "message": None}


def resource_of(application: Manifest) -> Manifest:
    """All that it seems to deploy."""
    namespace = (application["spec"].get("destination") or {}).get("namespace", "")
    return {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": namespace, "name": "guestbook"}


def synced_result(resource: Manifest) -> Manifest:
    """The resource in the result of an operation."""
    return resource | {"status": "Synced", "syncPhase": "Sync", "hookPhase": "Running", "message": "configured"}


def revision_of(application: Manifest) -> str:
    """The commit that the target revision seems to name, or the one an operation asks for."""
    asked = ((application.get("operation") or {}).get("sync") or {}).get("revision")
    if asked and COMMIT.fullmatch(asked):
        return str(asked)
    source = source_of(application)
    name = f"{source.get('repoURL', '')}@{asked or source.get('targetRevision', 'HEAD')}"
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
