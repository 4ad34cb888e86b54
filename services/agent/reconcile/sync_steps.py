"""Decides the next step of a requested sync: which patch starts or ends it, or what to report. Pure.

How Argo CD runs a sync: a client sets ``.operation`` on the Application and clears ``status.operationState``, as Argo
CD's own API server does. The controller then writes ``status.operationState`` with phase Running, and takes
``.operation`` away when the phase is Succeeded, Failed or Error. Phase Terminating, written by any client, makes it end
the operation, but only while ``.operation`` is there.

Started exactly once: the annotation ``sync-sequence`` and the operation are set by one patch that names the resource
version it was decided on. A second writer, such as a former owner of the instance, gets a conflict, reads the
Application again and sees the sequence. A sync that is to end before it began raises the sequence likewise, before that
is reported. The annotation is deleted with its Application: so a request also says whether its run was seen to begin,
and such a run is never started again. Whoever gives an Application up to another instance reports that before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.agent.objects.live import LiveObject
from services.agent.objects.live_operation import (
    ENDED,
    ERROR,
    RUN_INFO,
    RUNNING,
    TERMINATING,
    LiveOperation,
)
from services.common.errors import Permanent
from services.common.json_values import dict_of, text_of
from services.common.kubernetes import Manifest
from services.common.messages import SyncMoved

SYNC_SEQUENCE = "managed-gitops.redhat.com/sync-sequence"
INITIATOR = "gitops-service"

TERMINATED = "Terminated"
"""Our phase of a terminated run. Argo CD calls it Failed."""

MAX_DIGITS = 18
"""Digits of a sequence of ours, which is a 64-bit number."""

LOST = "the outcome of this sync is not known: another operation has taken its place"
DELETED = "the Application was deleted before the sync had ended"


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """The run that a SyncOperation row requests."""

    run: str
    sequence: int
    revision: str
    terminated: bool
    begun: bool
    """Whether this or another agent has reported progress of the run: it must not start again."""


@dataclass(frozen=True, slots=True)
class PatchApplication:
    """Apply a merge patch to the Application; then decide again, even after a conflict."""

    patch: Manifest
    starts: bool = False
    """Whether the patch makes Argo CD read the repository."""


@dataclass(frozen=True, slots=True)
class ReportProgress:
    """Report the progress of the sync. There is nothing to write."""

    moved: SyncMoved
    presumed: bool = False
    """Whether this was concluded from something missing in the store: read the Application before reporting."""


@dataclass(frozen=True, slots=True)
class NoStep:
    """Wait for a change of the Application."""


SyncStep = PatchApplication | ReportProgress | NoStep


def sync_request(manifest: Manifest) -> SyncRequest:
    """The request in a row's ``manifest``. Raises Permanent."""
    operation = dict_of(manifest.get("operation"))
    run, sequence, state = operation.get("run"), operation.get("sequence"), operation.get("state")
    known = isinstance(run, str) and run and isinstance(sequence, int) and state in {RUNNING, TERMINATED}
    if not known:
        raise Permanent("the manifest holds no operation that can be understood")
    revision, begun = text_of(operation.get("revision")), operation.get("begun") is True
    return SyncRequest(str(run), int(str(sequence)), revision, state == TERMINATED, begun)


def next_sync_step(
    request: SyncRequest, live: LiveObject | None, known: SyncMoved | None, begun: str, now: str
) -> SyncStep:
    """The next step for ``request``.

    ``known`` is the last reported progress, None if there is none. ``begun`` is the uid of the Application on which the
    run was seen, empty if it was on none. ``now`` is RFC 3339.
    """
    if known is not None and known.finished_at:
        return NoStep()
    move: SyncStep
    if live is not None and begun not in ("", live.uid):
        live = None  # another incarnation: the one that was synced is gone
    if live is None or live.deletion_started is not None:
        move = _without_application(request, live, bool(begun), now)
    else:
        move = _ending(request, live, now) if request.terminated else _progress(request, live, now)
    return _completed(move, known) if isinstance(move, ReportProgress) and known is not None else move


def progress_before_release(
    request: SyncRequest, live: LiveObject | None, known: SyncMoved | None, begun: str, now: str
) -> SyncMoved | None:
    """What has to be reported of a run before its Application is released; None: the run was never given to it.

    A run that was given to the Application counts as begun, because Argo CD may be about to start it. After that only
    its end is reported. For the arguments see :func:`next_sync_step`.
    """
    step = next_sync_step(request, live, known, begun, now)
    if isinstance(step, ReportProgress) and not step.presumed and (known is None or step.moved.finished_at):
        return step.moved
    is_news = known is None and begun != ""
    return SyncMoved(request.run, RUNNING, "", "", "", "") if is_news else known


def _completed(move: ReportProgress, known: SyncMoved) -> ReportProgress:
    """The progress, with what is known of the sync and the Application no longer shows."""
    started, revision = move.moved.started_at or known.started_at, move.moved.revision or known.revision
    return replace(move, moved=replace(move.moved, started_at=started, revision=revision))


def _progress(request: SyncRequest, live: LiveObject, now: str) -> SyncStep:
    operation = live.operation
    if operation.run == request.run:
        return ReportProgress(_moved(operation, now))
    if operation.requested_run == request.run:
        return NoStep()
    if _sequence_of(live) >= request.sequence:
        return ReportProgress(_ended(request, ERROR, LOST, now))
    if request.begun:
        return ReportProgress(_ended(request, ERROR, DELETED, now), presumed=True)
    return _await_other(request, live) if operation.in_progress else _start(request, live)


def _await_other(request: SyncRequest, live: LiveObject) -> SyncStep:
    """Wait for another operation, but end it in two cases.

    An operation of an earlier run is ended, because that run's request has ended. So is one without ``.operation``: it
    was withdrawn while the controller started it, and would show Running for ever.
    """
    operation = live.operation
    is_abandoned = operation.phase in {RUNNING, TERMINATING} and not operation.requested
    is_of_earlier_run = operation.phase == RUNNING and operation.run != ""
    return _terminate(replace(request, run=operation.run), live) if is_abandoned or is_of_earlier_run else NoStep()


def _ending(request: SyncRequest, live: LiveObject, now: str) -> SyncStep:
    operation = live.operation
    if operation.run == request.run:
        return _terminate(request, live) if operation.phase == RUNNING else ReportProgress(_moved(operation, now))
    if operation.requested_run == request.run:
        return PatchApplication(_locked(live) | {"operation": None})
    if _sequence_of(live) < request.sequence:
        return PatchApplication(_locked(live, request.sequence))
    return ReportProgress(_ended(request, TERMINATED, "", now))


def _without_application(request: SyncRequest, live: LiveObject | None, begun: bool, now: str) -> SyncStep:
    """The step without a usable Application.

    Argo CD ends no operation of an Application that is being deleted; a run that has not begun waits for the next
    incarnation.
    """
    begun = begun or request.begun
    if live is not None:
        begun = begun or _sequence_of(live) >= request.sequence
        if live.operation.run == request.run and live.operation.phase in ENDED:
            return ReportProgress(_moved(live.operation, now))
    if request.terminated:
        return ReportProgress(_ended(request, TERMINATED, "", now))
    return ReportProgress(_ended(request, ERROR, DELETED, now), presumed=live is None) if begun else NoStep()


def _start(request: SyncRequest, live: LiveObject) -> PatchApplication:
    # Progress of an earlier operation would be taken for this one's until the controller has looked.
    cleared = {"status": {"operationState": None}} if live.operation.phase else {}
    patch = _locked(live, request.sequence) | {"operation": _operation(request, live)} | cleared
    return PatchApplication(patch, starts=True)


def _terminate(request: SyncRequest, live: LiveObject) -> PatchApplication:
    """The patch that terminates the operation.

    It restores ``.operation``, which any client may have removed: the controller ignores the phase of an Application
    without it.
    """
    lacking = {} if live.operation.requested else {"operation": _operation(request, live)}
    return PatchApplication(_locked(live) | {"status": {"operationState": {"phase": TERMINATING}}} | lacking)


def _operation(request: SyncRequest, live: LiveObject) -> Manifest:
    """The operation of a manual sync, as Argo CD's API server sets it: hooks, no pruning, the options."""
    policy = dict_of(dict_of(live.owned.get("spec")).get("syncPolicy"))
    sync: Manifest = {"prune": False, "syncStrategy": {"hook": {}}}
    if request.revision:
        sync["revision"] = request.revision
    if options := policy.get("syncOptions"):
        sync["syncOptions"] = options
    return {
        "sync": sync,
        "info": [{"name": RUN_INFO, "value": request.run}],
        "initiatedBy": {"username": INITIATOR},
        "retry": {},
    }


def _locked(live: LiveObject, sequence: int | None = None) -> Manifest:
    """Metadata of a patch that is valid for this version of the Application only."""
    metadata: Manifest = {"resourceVersion": str(live.version)}
    if sequence is not None:
        metadata["annotations"] = {SYNC_SEQUENCE: str(sequence)}
    return {"metadata": metadata}


def _sequence_of(live: LiveObject) -> int:
    text = live.annotations.get(SYNC_SEQUENCE, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _moved(operation: LiveOperation, now: str) -> SyncMoved:
    # A sync that is tried again is Running with a finishedAt: the end of an attempt, not of the sync.
    finished = (operation.finished_at or now) if operation.phase in ENDED else ""
    return SyncMoved(
        operation.run, operation.phase, operation.message, operation.revision, operation.started_at, finished
    )


def _ended(request: SyncRequest, phase: str, message: str, now: str) -> SyncMoved:
    return SyncMoved(request.run, phase, message, revision="", started_at="", finished_at=now)
