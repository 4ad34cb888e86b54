"""All that real Argo CD writes while it syncs, where ``behaviour`` writes only what comes of it. Pure, level-based.

Nine writes for an automated sync: it is out of sync, a sync is asked for, begins, applies and ends; the comparison
comes before the cluster has shown what was made, so there is a second sync, which is asked for, begins and ends; and it
is in sync.
"""

from __future__ import annotations

from datetime import datetime

from devstack.argocd_simulator.application import (
    is_automated,
    is_compared,
    is_synced,
    operation_state,
    resource_of,
    source_of,
    status_of,
    synced_result,
)
from devstack.argocd_simulator.behaviour import AUTOMATION, Response, compare_only, finish, respond
from services.common.kubernetes import Manifest

WRITES_PER_SYNC = 9
SECOND: Manifest = AUTOMATION | {"sync": {"autoHealAttemptsCount": 1}}
WORKING_MESSAGE = "one or more tasks are running"


def respond_in_full(application: Manifest, now: datetime) -> Response | None:
    """What to write to ``application`` next."""
    answer = respond(application, now)
    if application["metadata"].get("deletionTimestamp"):
        return answer
    if application.get("operation") is None and _has_ended(application):
        return _after_the_end(application, now)
    if answer is None:
        return None
    if _ends(answer):
        return _end(application, answer)
    return _begin(application, answer, now) if "operation" in answer.patch else answer


def _begin(application: Manifest, answer: Response, now: datetime) -> Response:
    """Automation's own sync: that it is needed, and that it is asked for."""
    if answer.after_sync:
        return answer
    return _ask(AUTOMATION) if is_compared(application) else compare_only(application, now)


def _end(application: Manifest, answer: Response) -> Response:
    """Only the operation has ended: what it did has not been compared."""
    running = operation_state(application)
    if running.get("message") is None and not _is_second(running):
        result = running["syncResult"] | {"resources": [synced_result(resource_of(application))]}
        return Response({"status": {"operationState": {"message": WORKING_MESSAGE, "syncResult": result}}})
    status = {"operationState": answer.patch["status"]["operationState"]}
    return Response({"status": status, "operation": None}, after_sync=True)


def _after_the_end(application: Manifest, now: datetime) -> Response:
    state, compared = operation_state(application), finish(application, operation_state(application), now)
    status = {name: part for name, part in compared.patch["status"].items() if name != "operationState"}
    if _is_second(state) or not is_automated(application):
        return Response({"status": status})
    return _ask(SECOND, health=status["health"])


def _ask(operation: Manifest, **status: Manifest) -> Response:
    return Response({"operation": operation, "status": {"operationState": None} | status})


def _ends(answer: Response) -> bool:
    state = answer.patch.get("status", {}).get("operationState") or {}
    return bool(answer.after_sync and state.get("phase") == "Succeeded")


def _has_ended(application: Manifest) -> bool:
    """What the last operation deployed is still wanted, and was not compared since."""
    state = operation_state(application)
    is_current = (state.get("syncResult") or {}).get("source") == source_of(application)
    return (
        state.get("phase") == "Succeeded" and is_current and bool(status_of(application)) and not is_synced(application)
    )


def _is_second(state: Manifest) -> bool:
    return bool(((state.get("operation") or {}).get("sync") or {}).get("autoHealAttemptsCount"))
