"""GitOpsDeploymentSyncRun: each is one sync, one at a time per deployment, in the order of their creation.

A run goes Waiting → Running → Ended; by Terminating if its resource is deleted while it runs, or if a move of its
tenant has waited for too long. It goes Waiting → Refused if it must not start. Ended and Refused are final: a run never
runs again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from services.common.messages import SyncMoved
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.gitops_deployment.validation import accepted_deployment
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import version_order
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.text import MAX_SYNC_MESSAGE, engine_words, readable
from services.kinds.sync_run import catalogue as texts
from services.kinds.sync_run.rows import SyncRun
from services.kinds.sync_run.validation import accept

Run = tuple[PlainResource, SyncRun]

ACTIVE = frozenset({"Running", "Terminating"})
OVER = frozenset({"Ended", "Refused"})
SUCCEEDED = "Succeeded"
FAILED = frozenset({"Failed", "Error"})
FINAL = FAILED | {SUCCEEDED, "Terminated"}
"""Phases that end a sync. The time of its end does not: an engine may show one between retries, too."""

HEAD = "HEAD"

WAITS_FOR_DEPLOYMENT = "waiting until the GitOpsDeployment has been accepted; see its conditions"
WAITS_FOR_TURN = "waiting for the sync before it to end"

MAX_VERSION = 2**63 - 1
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def first_seen(resource: PlainResource) -> SyncRun:
    """The run of a resource: waiting, or refused for good if its spec is invalid."""
    try:
        spec = accept(resource)
    except Refused as refused:
        return _unstarted(resource, "", "", refused.message)
    return _unstarted(resource, spec.git_ops_deployment_name, spec.revision_id or "", "")


def arrange(
    runs: Sequence[Run], deployment: Deployment | None, sequence: int, *, is_halted: bool = False
) -> tuple[list[SyncRun], int]:
    """What becomes of all runs of one deployment's name, in the order of their turns, and the newest sequence number.

    Args:
        runs: in any order; those that have ended may be among them.
        deployment: the incarnation that exists, if any.
        sequence: of the newest run that was started for it, 0 if none was.
        is_halted: none is started for now; what runs goes on.
    """
    target = deployment if deployment is not None and deployment.is_active else None
    in_turn = sorted(runs, key=_turn)
    followed = [(resource, _followed(resource, run, target)) for resource, run in in_turn]
    is_busy = any(run.state in ACTIVE for _, run in followed)
    arranged = []
    for resource, run in followed:
        blocker = _blocker(resource, run, target, is_busy=is_busy, is_halted=is_halted)
        if run.state != "Waiting" or target is None or blocker is not None:
            arranged.append(run if blocker is None else replace(run, message=blocker))
            continue
        arranged.append(started(run, resource, target, sequence))
        sequence, is_busy = arranged[-1].sequence, True
    return arranged, sequence


def started(run: SyncRun, resource: PlainResource, deployment: Deployment | None, sequence: int) -> SyncRun:
    """``run``, that of ``resource``, started after the run with ``sequence``; ``deployment`` is None if unknown.

    Its own sequence is never lower than before, even in a rebuilt database, because the engine remembers it.
    """
    own = max(sequence + 1, resource.created_at)
    deployment_id = deployment.id if deployment is not None else run.deployment_id
    return replace(run, state="Running", deployment_id=deployment_id, sequence=own, message="")


def terminated_for_move(run: SyncRun) -> SyncRun:
    """``run``, which is running, when the engine is ordered to end it. Its message gives the reason."""
    return replace(run, state="Terminating", message=texts.TERMINATED_FOR_MOVE.message)


def moved(run: SyncRun, event: SyncMoved) -> SyncRun:
    """``run`` after the engine's report of progress. After the end, reports are ignored."""
    if run.state not in ACTIVE:
        return run
    has_ended, is_cut_short = event.phase in FINAL, _is_terminated_for_move(run) and event.phase != SUCCEEDED
    return replace(
        run,
        state="Ended" if has_ended else run.state,
        phase="Failed" if has_ended and is_cut_short else readable(event.phase),
        message=run.message if is_cut_short else engine_words(event.message)[:MAX_SYNC_MESSAGE],
        synced_revision=readable(event.revision) or run.synced_revision,
        started_at=_time(event.started_at) or run.started_at,
        finished_at=_time(event.finished_at) if has_ended else "",
    )


def revision_to_sync(run: SyncRun, deployment: Deployment) -> str:
    """The revision that the engine is ordered to sync to."""
    spec = accepted_deployment(deployment.spec) if deployment.spec is not None else None
    return run.revision or (spec.source.target_revision if spec else None) or HEAD


def _unstarted(resource: PlainResource, deployment_name: str, revision: str, refusal: str) -> SyncRun:
    return SyncRun(
        resource_id=resource.id,
        deployment_name=deployment_name,
        revision=revision,
        first_version=min(version_order(resource.resource_version), MAX_VERSION),
        deployment_id=None,
        sequence=0,
        state="Refused" if refusal else "Waiting",
        phase="",
        message=refusal,
        synced_revision="",
        started_at="",
        finished_at="",
    )


def _is_terminated_for_move(run: SyncRun) -> bool:
    return run.state == "Terminating" and run.message == texts.TERMINATED_FOR_MOVE.message


def _turn(run: Run) -> tuple[int, int, str]:
    resource, row = run
    return (resource.created_at, row.first_version, resource.name)


def _followed(resource: PlainResource, run: SyncRun, target: Deployment | None) -> SyncRun:
    """The run after changes of its resource and its deployment, without regard to other runs."""
    is_asked = resource.present and not resource.deleting
    if run.state in ACTIVE:
        if target is None or target.spec is None or target.id != run.deployment_id:
            return replace(run, state="Ended", phase="Error", message=texts.DEPLOYMENT_DELETED.message)
        return run if is_asked else replace(run, state="Terminating")
    if run.state != "Waiting":
        return run
    return _followed_waiting(resource, run, target) if is_asked else replace(run, state="Ended", message="")


def _followed_waiting(resource: PlainResource, run: SyncRun, target: Deployment | None) -> SyncRun:
    is_gone = run.deployment_id is not None and (target is None or target.id != run.deployment_id)
    if is_gone or _is_replaced(resource, run, target):
        return replace(run, state="Ended", phase="Error", message=texts.DEPLOYMENT_DELETED.message)
    if target is not None and _is_meant(resource, run, target):
        run = replace(run, deployment_id=target.id)
    if _is_automated(target) and not _is_ahead(resource, run, target):
        return replace(run, state="Refused", message=texts.DEPLOYMENT_AUTOMATED.text(name=resource.name))
    return run


def _blocker(
    resource: PlainResource, run: SyncRun, target: Deployment | None, *, is_busy: bool, is_halted: bool
) -> str | None:
    """Why a waiting run does not start now; None if it does, or does not wait."""
    if run.state != "Waiting":
        return None
    if target is None:
        return texts.DEPLOYMENT_NOT_FOUND.text(name=run.deployment_name)
    if not _is_in_force(target) or _is_ahead(resource, run, target):
        return WAITS_FOR_DEPLOYMENT
    if resource.over_quota or (is_halted and not is_busy):
        return ""
    return WAITS_FOR_TURN if is_busy else None


def _is_in_force(target: Deployment) -> bool:
    """Whether what is deployed follows from the newest spec. A run must not sync an older one."""
    return target.spec is not None and target.pending_spec is None and not target.problem


def _is_automated(target: Deployment | None) -> bool:
    """Whether the newest spec is automated. That is unknown for an invalid one."""
    newest = (target.pending_spec or target.spec) if target is not None and not target.error else None
    return newest is not None and accepted_deployment(newest).automated


def _is_meant(resource: PlainResource, run: SyncRun, target: Deployment) -> bool:
    """The run was made for this incarnation: the one that the watcher found, or the first after it if there was none.

    One that is older than the run has gone before the watcher looked; we have not heard of that yet.
    """
    return resource.target_uid == target.uid or (
        not resource.target_uid and version_order(target.resource_version) > run.first_version
    )


def _is_replaced(resource: PlainResource, run: SyncRun, target: Deployment | None) -> bool:
    """Whether the meant deployment is gone, and another incarnation has its name."""
    if target is None or resource.target_uid in {"", target.uid}:
        return False
    return not _is_ahead(resource, run, target)


def _is_ahead(resource: PlainResource, run: SyncRun, target: Deployment | None) -> bool:
    """Whether the run arrived before the state of its deployment that it means: the two come by different feeds."""
    if target is None or not resource.target_uid:
        return False
    if target.uid == resource.target_uid:
        return target.generation < resource.target_generation
    return version_order(target.resource_version) < run.first_version


def _time(text: str) -> str:
    """The time, empty if invalid: the API server would refuse the whole status for it."""
    return text if _TIME.fullmatch(text) else ""
