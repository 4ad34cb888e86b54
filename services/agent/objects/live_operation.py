"""The operation that an Application shows, parsed leniently: any client may have written it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.common.json_values import dict_of, text_of
from services.common.kubernetes import Manifest

RUN_INFO = "gitops-sync-run"
"""Name of our run in an operation's ``info``, by which we recognise our operations."""

RUNNING, TERMINATING, ERROR = "Running", "Terminating", "Error"
ENDED = frozenset({"Succeeded", "Failed", ERROR})
"""Phases in which an operation has ended."""


@dataclass(frozen=True, slots=True)
class LiveOperation:
    """What an Application shows of its operation."""

    requested: bool
    """Whether ``.operation`` is set."""
    requested_run: str
    """Our run in ``.operation``, empty if it is another client's."""
    run: str
    """Our run in ``status.operationState``."""
    phase: str
    message: str
    revision: str
    started_at: str
    finished_at: str

    @property
    def in_progress(self) -> bool:
        """Whether Argo CD works on it, or is about to."""
        return self.requested or (self.phase != "" and self.phase not in ENDED)

    @property
    def has_failed(self) -> bool:
        """Whether it has failed, or its last attempt has.

        An operation that waits for its next attempt has the phase of a running one, but a finish time.
        """
        return self.phase in ("Failed", ERROR) or (self.phase == RUNNING and self.finished_at != "")


NO_OPERATION = LiveOperation(False, "", "", "", "", "", "", "")


def live_operation(application: Manifest) -> LiveOperation:
    """The operation that ``application`` shows."""
    requested = application.get("operation")
    state = dict_of(dict_of(application.get("status")).get("operationState"))
    return LiveOperation(
        requested=requested is not None,
        requested_run=_run_of(dict_of(requested)),
        run=_run_of(dict_of(state.get("operation"))),
        phase=text_of(state.get("phase")),
        message=text_of(state.get("message")),
        # Of one that ended in error this is what was asked for, not a commit.
        revision="" if state.get("phase") == ERROR else text_of(dict_of(state.get("syncResult")).get("revision")),
        started_at=text_of(state.get("startedAt")),
        finished_at=text_of(state.get("finishedAt")),
    )


def termination_patch(operation: LiveOperation) -> Manifest:
    """The part of a merge patch that ends ``operation``, of any client; empty if there is nothing to end.

    An operation that the controller has not begun is withdrawn. A running one must keep ``.operation``: otherwise the
    controller would not look at the phase any more.
    """
    if not operation.requested or operation.phase == TERMINATING:
        return {}
    return {"status": {"operationState": {"phase": TERMINATING}}} if operation.phase == RUNNING else {"operation": None}


def _run_of(operation: Manifest) -> str:
    """The run in its info. An operation that Argo CD began by itself may still carry the info of our last one."""
    if dict_of(operation.get("initiatedBy")).get("automated"):
        return ""
    infos = operation.get("info")
    for info in infos if isinstance(infos, Sequence) and not isinstance(infos, str) else ():
        if isinstance(info, dict) and info.get("name") == RUN_INFO:
            return text_of(info.get("value"))
    return ""
