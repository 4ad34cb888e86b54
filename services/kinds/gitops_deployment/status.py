"""The status of a GitOpsDeployment: what its engine reports, and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson

from services.common.json_values import canonical, dict_of, text_at
from services.kinds.gitops_deployment.catalogue import (
    IS_DELETING,
    REPOSITORY_NEEDS_LOGIN,
    STATUS_CUT,
    SYNC_FAILED,
)
from services.kinds.gitops_deployment.left_behind import condition as left_behind_condition
from services.kinds.gitops_deployment.rows import Deployment, ForcedDeletion, Observed
from services.kinds.gitops_deployment.validation import accepted_deployment
from services.kinds.shared.catalogue import DELETING, ERROR, UNKNOWN_ERROR
from services.kinds.shared.child_objects import DeploymentState
from services.kinds.shared.conditions import (
    ActiveConditions,
    Json,
    parsed_status,
    throttling,
    with_active,
    with_probe_time,
)

DELETION_NOTICE = timedelta(seconds=5)
"""A shorter deletion gets no status."""

MAX_STATUS = 512 * 1024
"""In bytes. etcd limits an object to 1.5 MiB; a message has at most 4 MiB."""


def state_shown(status: str) -> DeploymentState:
    """The state of the deployment in its status (JSON text)."""
    shown = dict_of(parsed_status(status))
    has_succeeded = text_at(shown, "operationState.phase") == "Succeeded"
    return DeploymentState(
        sync=text_at(shown, "sync.status"),
        health=text_at(shown, "health.status"),
        revision=text_at(shown, "sync.revision"),
        applied=text_at(shown, "operationState.syncResult.revision") if has_succeeded else "",
    )


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The engine's report on a deployment, in the form of a status."""

    part: Mapping[str, object] = field(default_factory=dict)
    """The engine's parts of the status."""
    conditions: ActiveConditions = field(default_factory=dict)
    needs_login: bool = False
    """Whether the engine cannot read the repository without a login, which the tenant has to provide."""


NEEDS_LOGIN: ActiveConditions = {
    REPOSITORY_NEEDS_LOGIN.type: (REPOSITORY_NEEDS_LOGIN.reason, REPOSITORY_NEEDS_LOGIN.message)
}
UNSEEN: Json = {"sync": {"status": "Unknown"}, "health": {"status": "Unknown"}}
"""What is known of a deployment whose repository nobody can read."""


def compile_deployment_status(
    deployment: Deployment,
    observed: Observed | None,
    report: EngineReport,
    previous: str,
    at: datetime,
    left: Sequence[ForcedDeletion] = (),
) -> str:
    """Canonical JSON of the whole status; equal to ``previous`` if nothing but a probe time would differ.

    Args:
        deployment: whose CR it is.
        observed: what agents reported of it.
        report: what its engine says of it.
        previous: the status compiled last for this incarnation, ``"{}"`` if none was.
        at: when that happened which may change it.
        left: what former deployments of its name may have left behind.
    """
    before = parsed_status(previous)
    if _needs_login(deployment, observed, report, before):
        report = _report_needing_login(before)
    part, left_out = _bounded(dict(report.part))
    own = _own_conditions(deployment, observed, before, at)
    active = {**report.conditions, **own, **left_behind_condition(left), **_cut(left_out)}
    conditions = with_active(before.get("conditions", ()), active, at)
    status = part | ({"conditions": conditions} if conditions else {})
    if status == before:
        return previous
    return canonical(status | ({"conditions": with_probe_time(conditions, at)} if conditions else {}))


def _needs_login(deployment: Deployment, observed: Observed | None, report: EngineReport, before: Json) -> bool:
    """Whether the repository needs a login, as the engine or an agent has found.

    An agent refuses a repository that only another tenant's login opens; the engine fails at one that no login here
    opens. A tenant that could distinguish the two would learn of others' logins. So what either has found is shown
    until the engine reports on what is wanted since.
    """
    refused = observed is not None and observed.failure_for_user and observed.failure == REPOSITORY_NEEDS_LOGIN.message
    if report.needs_login or refused:
        return True
    needed_login = any(
        (known["type"], known["message"]) == (REPOSITORY_NEEDS_LOGIN.type, REPOSITORY_NEEDS_LOGIN.message)
        for known in before.get("conditions", ())
    )
    return needed_login and not report.conditions and not _is_of(deployment, report)


def _is_of(deployment: Deployment, report: EngineReport) -> bool:
    """Whether the engine has compared what is wanted now."""
    reconciled = report.part.get("reconciledState")
    if deployment.spec is None or not isinstance(reconciled, dict):
        return deployment.spec is None
    source = accepted_deployment(deployment.spec).source
    wanted = {"repoURL": source.repo_url, "path": source.path, "branch": source.target_revision or ""}
    return bool(reconciled["source"] == wanted)


def _report_needing_login(before: Json) -> EngineReport:
    """A report in which the two cases do not differ, with the last known state of what was deployed."""
    last_seen = {name: before[name] for name in ("resources", "operationState", "reconciledState") if name in before}
    return EngineReport(UNSEEN | last_seen, NEEDS_LOGIN, needs_login=True)


def _own_conditions(
    deployment: Deployment, observed: Observed | None, before: Json, at: datetime
) -> dict[str, tuple[str, str]]:
    refused = failure(deployment, observed)
    error = deployment.problem or ("" if refused == REPOSITORY_NEEDS_LOGIN.message else refused)
    errors = {ERROR: (ERROR, error)} if error else {}
    throttled = throttling(deployment.held_back_ms)
    waits = deployment.present and deployment.deleting and deployment.spec is not None
    overdue = at - deployment.seen_at >= DELETION_NOTICE or _has_active(DELETING, before)
    return {
        **errors,
        **throttled,
        **({DELETING: (IS_DELETING.reason, IS_DELETING.message)} if waits and overdue else {}),
    }


def sync_error_shown(previous: str) -> str | None:
    """The message of the active condition about a failed sync in the status ``previous``."""
    if SYNC_FAILED.type not in previous:
        return None
    conditions = parsed_status(previous).get("conditions", ())
    return next((known["message"] for known in conditions if _is_active(SYNC_FAILED.type, known)), None)


def _has_active(type_: str, before: Json) -> bool:
    return any(_is_active(type_, known) for known in before.get("conditions", ()))


def _is_active(type_: str, known: Json) -> bool:
    return (known["type"], known["status"]) == (type_, "True")


def failure(deployment: Deployment, observed: Observed | None) -> str:
    """Why the engine does not have the desired manifest; empty if there is no failure."""
    current = observed is not None and deployment.digest is not None and observed.failed_digest == deployment.digest
    if not current or observed is None or not observed.failure:
        return ""
    # The engine's own words are for operators, in the audit and the log: they tell of a fleet that users never see.
    return observed.failure if observed.failure_for_user else UNKNOWN_ERROR.message


def _bounded(part: Json) -> tuple[Json, list[str]]:
    """``part`` without its longest members if it is too long, and their names.

    Resources, which are unbounded, go first.
    """
    left_out: list[str] = []
    for dropped in ("resources", "operationState"):
        if len(orjson.dumps(part)) <= MAX_STATUS:
            break
        left_out += [dropped] if dropped in part else []
        part = {name: value for name, value in part.items() if name != dropped}
    return part, left_out


def _cut(left_out: list[str]) -> ActiveConditions:
    """The condition about members that were left out."""
    if not left_out:
        return {}
    message = STATUS_CUT.text(limit=MAX_STATUS // 1024, parts=" and ".join(left_out))
    return {STATUS_CUT.type: (STATUS_CUT.reason, message)}
