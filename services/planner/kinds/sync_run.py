"""GitOpsDeploymentSyncRun: one sync each, one at a time per deployment, in the order in which they were made.

A run goes Waiting → Running → Ended; by Terminating if its CR goes while it runs. Waiting → Refused if it must not
start. Ended and Refused are final: what ran never runs again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from services.common.api import SyncRunSpec
from services.common.api.catalogue import sync_run as texts
from services.common.api.catalogue.entry import ERROR, UNKNOWN_ERROR, Reason
from services.common.messages import SyncMoved
from services.planner.kinds.bounds import MAX_SYNC_MESSAGE
from services.planner.kinds.conditions import Refused, compiled, parsed_status, recurring, throttling
from services.planner.kinds.lifecycle import version_order
from services.planner.kinds.limits import Limits
from services.planner.kinds.wording import engine_words, readable
from services.planner.kinds.written_spec import accepted_deployment, cleaned, spec_of
from services.planner.rows import Deployment, Resource, SyncRun

Run = tuple[Resource, SyncRun]

ACTIVE = frozenset({"Running", "Terminating"})
OVER = frozenset({"Ended", "Refused"})
SUCCEEDED = "Succeeded"
FAILED = frozenset({"Failed", "Error"})
FINAL = FAILED | {SUCCEEDED, "Terminated"}
"""Phases that end a sync. A time of its end does not: Argo CD shows one between retries too."""

HEAD = "HEAD"

WAITS_FOR_APPLICATION = "waiting until the GitOpsDeployment has been accepted; see its conditions"
WAITS_FOR_TURN = "waiting for the sync before it to end"

MAX_VERSION = 2**63 - 1
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def accept(resource: Resource) -> SyncRunSpec:
    """The spec of ``resource``, with unwanted characters removed. Raises Refused."""
    spec = spec_of(SyncRunSpec, resource)
    revision = cleaned(spec.revision_id)
    if revision.startswith("-"):
        raise Refused("True", Reason.INVALID_SPEC, texts.REVISION_REFUSED.message)
    name = spec.git_ops_deployment_name.replace("\0", "")
    return SyncRunSpec(git_ops_deployment_name=name, revision_id=revision or None)


def first_seen(resource: Resource) -> SyncRun:
    """The run that a CR asks for: waiting, or refused for good if nothing can be made of its spec."""
    try:
        spec = accept(resource)
    except Refused as refused:
        return _unstarted(resource, "", "", refused.message)
    return _unstarted(resource, spec.git_ops_deployment_name, spec.revision_id or "", "")


def arrange(runs: Sequence[Run], deployment: Deployment | None, sequence: int) -> tuple[list[SyncRun], int]:
    """What becomes of all runs of one deployment's name, in the order of their turns, and the newest sequence number.

    Args:
        runs: in any order; those that have ended may be among them.
        deployment: the incarnation that exists, if any.
        sequence: of the newest run that was started for it, 0 if none was.
    """
    target = deployment if deployment is not None and deployment.wanted else None
    in_turn = sorted(runs, key=_turn)
    followed = [(resource, _followed(resource, run, target)) for resource, run in in_turn]
    is_busy = any(run.state in ACTIVE for _, run in followed)
    arranged = []
    for resource, run in followed:
        blocker = _blocker(resource, run, target, is_busy=is_busy)
        if run.state != "Waiting" or target is None or blocker is not None:
            arranged.append(run if blocker is None else replace(run, message=blocker))
            continue
        # Never lower than before, also in a database built anew: the engine remembers.
        sequence, is_busy = max(sequence + 1, resource.created_at), True
        arranged.append(replace(run, state="Running", deployment_id=target.id, sequence=sequence, message=""))
    return arranged, sequence


def moved(run: SyncRun, event: SyncMoved) -> SyncRun:
    """The engine reports how far the sync of ``run`` has come; after its end nothing counts any more."""
    if run.state not in ACTIVE:
        return run
    has_ended = event.phase in FINAL
    return replace(
        run,
        state="Ended" if has_ended else run.state,
        phase=readable(event.phase),
        message=engine_words(event.message)[:MAX_SYNC_MESSAGE],
        synced_revision=readable(event.revision) or run.synced_revision,
        started_at=_time(event.started_at) or run.started_at,
        finished_at=_time(event.finished_at) if has_ended else "",
    )


def revision_to_sync(run: SyncRun, deployment: Deployment) -> str:
    """What the engine is told to sync to."""
    spec = accepted_deployment(deployment.spec) if deployment.spec is not None else None
    return run.revision or (spec.source.target_revision if spec else None) or HEAD


def sync_status(resource: Resource, run: SyncRun, previous: str, at: datetime, limits: Limits) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed.

    Args:
        resource: the CR.
        run: what has become of it.
        previous: the status compiled last for this incarnation, ``"{}"`` if none was.
        at: when that happened which may change it.
        limits: of its tenant.
    """
    error = next(_errors(resource, run, limits), "")
    own = {ERROR: ("True", ERROR, error) if error else ("False", "", "")}
    throttled = recurring(throttling(resource.held_back_ms), parsed_status(previous))
    operation = _operation(run)
    return compiled(previous, own | throttled, at, {"operation": operation} if operation else {})


def _unstarted(resource: Resource, deployment_name: str, revision: str, refusal: str) -> SyncRun:
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


def _turn(run: Run) -> tuple[int, int, str]:
    resource, row = run
    return (resource.created_at, row.first_version, resource.name)


def _followed(resource: Resource, run: SyncRun, target: Deployment | None) -> SyncRun:
    """What follows from the state of its CR and of its deployment, whatever the other runs do."""
    is_asked = resource.present and not resource.deleting
    if run.state in ACTIVE:
        if target is None or target.spec is None or target.id != run.deployment_id:
            return replace(run, state="Ended", phase="Error", message=texts.DEPLOYMENT_DELETED.message)
        return run if is_asked else replace(run, state="Terminating")
    if run.state != "Waiting":
        return run
    if not is_asked:
        return replace(run, state="Ended", message="")
    if _is_automated(target) and not _is_ahead(resource, run, target):
        return replace(run, state="Refused", message=texts.DEPLOYMENT_AUTOMATED.text(name=resource.name))
    return run


def _blocker(resource: Resource, run: SyncRun, target: Deployment | None, *, is_busy: bool) -> str | None:
    """Why a waiting run does not start now; None if it does, or does not wait."""
    if run.state != "Waiting":
        return None
    if target is None:
        return texts.DEPLOYMENT_NOT_FOUND.text(name=run.deployment_name)
    if not _is_in_force(target) or _is_ahead(resource, run, target):
        return WAITS_FOR_APPLICATION
    if resource.over_quota:
        return ""
    return WAITS_FOR_TURN if is_busy else None


def _is_in_force(target: Deployment) -> bool:
    """Its Application is what its newest spec asks for: a run must not sync what was asked for before that."""
    return target.spec is not None and target.offered is None and not target.problem


def _is_automated(target: Deployment | None) -> bool:
    """By its newest spec; of one that is wrong nobody knows."""
    newest = (target.offered or target.spec) if target is not None and not target.error else None
    return newest is not None and accepted_deployment(newest).automated


def _is_ahead(resource: Resource, run: SyncRun, target: Deployment | None) -> bool:
    """The run was seen before the state of its deployment that it means: the two come by ways of their own."""
    if target is None or not resource.target_uid:
        return False
    if target.uid == resource.target_uid:
        return target.generation < resource.target_generation
    return version_order(target.resource_version) < run.first_version


def _errors(resource: Resource, run: SyncRun, limits: Limits) -> Iterator[str]:
    yield from _changes(resource, run)
    if run.state == "Refused":
        yield run.message
    if run.state == "Waiting" and resource.over_quota:
        yield limits.message(resource.kind)
    if run.state == "Waiting" and run.message == texts.DEPLOYMENT_NOT_FOUND.text(name=run.deployment_name):
        yield run.message
    if run.phase in FAILED:
        yield run.message or UNKNOWN_ERROR.message


def _changes(resource: Resource, run: SyncRun) -> Iterable[str]:
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
    """``status.operation``; nothing for a run that was refused, or ended before it began."""
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


def _time(text: str) -> str:
    """The API server refuses a whole status for one time that is none."""
    return text if _TIME.fullmatch(text) else ""
