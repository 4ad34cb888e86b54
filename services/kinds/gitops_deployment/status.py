"""The status of a GitOpsDeployment: what its engine reports, and what went wrong on the way there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson

from services.common.json_values import canonical
from services.kinds.gitops_deployment.catalogue import IS_DELETING, STATUS_CUT, SYNC_FAILED
from services.kinds.gitops_deployment.rows import Deployment, Observed
from services.kinds.shared.catalogue import DELETING, ERROR, UNKNOWN_ERROR
from services.kinds.shared.conditions import (
    ActiveConditions,
    Json,
    parsed_status,
    throttling,
    with_active,
    with_probe_time,
)

DELETION_NOTICE = timedelta(seconds=5)
"""A deletion that takes no longer than this is not worth a status."""

MAX_STATUS = 512 * 1024
"""Bytes; an object of etcd is limited to 1.5 MiB, a message to 4."""


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What an engine says of what it deploys, as a status shows it."""

    part: Mapping[str, object] = field(default_factory=dict)
    """The parts of the status that are the engine's."""
    conditions: ActiveConditions = field(default_factory=dict)


def compile_deployment_status(
    deployment: Deployment,
    observed: Observed | None,
    report: EngineReport,
    previous: str,
    at: datetime,
) -> str:
    """Canonical JSON of the whole status; equal to ``previous`` if nothing but a probe time would differ.

    Args:
        deployment: whose CR it is.
        observed: what agents reported of it.
        report: what its engine says of it.
        previous: the status compiled last for this incarnation, ``"{}"`` if none was.
        at: when that happened which may change it.
    """
    before = parsed_status(previous)
    part, left_out = _bounded(dict(report.part))
    holding = {**report.conditions, **_own_conditions(deployment, observed, before, at), **_cut(left_out)}
    conditions = with_active(before.get("conditions", ()), holding, at)
    status = part | ({"conditions": conditions} if conditions else {})
    if status == before:
        return previous
    return canonical(status | ({"conditions": with_probe_time(conditions, at)} if conditions else {}))


def _own_conditions(
    deployment: Deployment, observed: Observed | None, before: Json, at: datetime
) -> dict[str, tuple[str, str]]:
    error = deployment.problem or failure(deployment, observed)
    errors = {ERROR: (ERROR, error)} if error else {}
    throttled = throttling(deployment.held_back_ms)
    waits = deployment.present and deployment.deleting and deployment.spec is not None
    overdue = at - deployment.seen_at >= DELETION_NOTICE or _holds(DELETING, before)
    return {
        **errors,
        **throttled,
        **({DELETING: (IS_DELETING.reason, IS_DELETING.message)} if waits and overdue else {}),
    }


def sync_error_shown(previous: str) -> str | None:
    """The message of the condition that says why a sync failed, if it holds in the status ``previous``."""
    if SYNC_FAILED.type not in previous:
        return None
    conditions = parsed_status(previous).get("conditions", ())
    return next((known["message"] for known in conditions if _is_held(SYNC_FAILED.type, known)), None)


def _holds(type_: str, before: Json) -> bool:
    return any(_is_held(type_, known) for known in before.get("conditions", ()))


def _is_held(type_: str, known: Json) -> bool:
    return (known["type"], known["status"]) == (type_, "True")


def failure(deployment: Deployment, observed: Observed | None) -> str:
    """Why the engine does not hold the manifest that is desired now; empty if nothing is known against it."""
    current = observed is not None and deployment.digest is not None and observed.failed_digest == deployment.digest
    if not current or observed is None or not observed.failure:
        return ""
    # The engine's own words are for operators, in the audit and the log: they tell of a fleet that users never see.
    return observed.failure if observed.failure_for_user else UNKNOWN_ERROR.message


def _bounded(part: Json) -> tuple[Json, list[str]]:
    """Without its longest parts if it is too long, and their names: the resources first, they are without a bound."""
    left_out: list[str] = []
    for dropped in ("resources", "operationState"):
        if len(orjson.dumps(part)) <= MAX_STATUS:
            break
        left_out += [dropped] if dropped in part else []
        part = {name: value for name, value in part.items() if name != dropped}
    return part, left_out


def _cut(left_out: list[str]) -> ActiveConditions:
    """The condition that says so."""
    if not left_out:
        return {}
    message = STATUS_CUT.text(limit=MAX_STATUS // 1024, parts=" and ".join(left_out))
    return {STATUS_CUT.type: (STATUS_CUT.reason, message)}
