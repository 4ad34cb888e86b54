"""A promotion as its run's row stores it, and as its status recalls it after a loss of the database."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson

from services.common.errors import Permanent
from services.common.json_values import canonical
from services.common.text_cache import TEXTS
from services.kinds.promotion_run.model import PROMOTION_RUN, EnvironmentStep, PromotionRunSpec, PromotionRunStatus
from services.kinds.promotion_run.progress import Before
from services.kinds.promotion_run.rules import TIME_FOR_A_STEP, Promotion, Step
from services.kinds.shared.api_group import APPSTUDIO_LABELS
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.limits import Limits
from services.kinds.shared.reconciled import beyond_quota
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import parsed, spec_of
from services.kinds.shared.text import readable

AUTOMATED_LABEL = f"{APPSTUDIO_LABELS}/automated"
"""Label of a run that was made for a new Snapshot."""
TRUE = "true"
NOT_BEGUN = Promotion()
COMPLETE_AT_HAND = 200
"""How many complete runs of a tenant, the newest, have an effect on others."""
MAX_CONCLUSION = 4096
"""Characters. Some of the text comes from others."""


def is_open(row: PlainResource) -> bool:
    """Whether it is a run that may continue."""
    return row.kind == PROMOTION_RUN.kind and row.is_active and promotion_of(row).state != "Complete"


def is_complete(row: PlainResource) -> bool:
    """Whether it is a complete run, which no quota counts."""
    return row.kind == PROMOTION_RUN.kind and row.present and promotion_of(row).state == "Complete"


def long_complete(runs: Collection[PlainResource]) -> list[PlainResource]:
    """The complete runs without the newest ones."""
    if len(runs) <= COMPLETE_AT_HAND:
        return []
    return sorted(runs, key=lambda row: (row.created_at, row.id))[:-COMPLETE_AT_HAND]


def with_long_complete(row: PlainResource) -> PlainResource:
    """The row of an old complete run, without what its snapshot was compared with."""
    promotion = promotion_of(row)
    steps = tuple(replace(step, before=None, answer_due=None, images="") for step in promotion.steps)
    return replace(row, progress=text_of(replace(promotion, steps=steps)))


def accept(row: PlainResource, limits: Limits) -> PromotionRunSpec:
    """The spec of a run. Raises Refused."""
    if row.over_quota:
        raise beyond_quota(row, limits)
    return spec_of(PromotionRunSpec, row)


def concluded(row: PlainResource) -> tuple[bool, str] | None:
    """Whether it has succeeded, and where; None: it continues."""
    promotion = promotion_of(row)
    if promotion.state != "Complete":
        return None
    steps = (
        f"{step.environment}: {step.status if step.status == 'Success' else step.display}" for step in promotion.steps
    )
    return promotion.result == "Success", readable("; ".join(steps) or promotion.error)[:MAX_CONCLUSION]


def promotion_of(row: PlainResource) -> Promotion:
    """The progress in a row."""
    return _promotion(row.progress) if row.progress else NOT_BEGUN


def text_of(promotion: Promotion) -> str:
    """The progress as rows store it."""
    steps = [
        {
            "environment": step.environment,
            "level": step.level,
            "dueAt": step.due_at.isoformat(),
            "status": step.status,
            "display": step.display,
            "error": step.error,
            "binding": step.binding,
            "reported": step.before.reported if step.before is not None else None,
            "deployed": step.before.deployed if step.before is not None else (),
            "sameImages": step.before.unchanged if step.before is not None else (),
            "answerDue": _time_text(step.answer_due),
            "recalled": step.is_recalled,
            "images": step.images,
        }
        for step in promotion.steps
    ]
    return canonical(
        {
            "state": promotion.state,
            "result": promotion.result,
            "startedAt": _time_text(promotion.started_at),
            "behind": promotion.behind,
            "error": promotion.error,
            "steps": steps,
        }
    )


def recalled_progress(progress: str, status: str, at: datetime) -> str:
    """The progress to store for a run with this status.

    A complete run stays so, whatever a new database has begun with it, or however it has ended it: an environment that
    is over today was not over then. A run in progress gets new time for its steps.
    """
    try:
        recalled = parsed(PromotionRunStatus, status, "status")
    except Permanent:
        return progress
    if recalled.state != "Complete" and (progress or recalled.state != "Active"):
        return progress
    if progress and (known := _promotion(progress)).state == "Complete" and known.result == recalled.completion_result:
        return progress
    shown = recalled.environment_status or []
    newest = max((each.step for each in shown), default=0)
    error = _shown_error(recalled)
    steps = tuple(_with_error(_recalled(each, newest, at), error) for each in shown)
    started_at = datetime.fromisoformat(recalled.promotion_start_time) if recalled.promotion_start_time else at
    return text_of(Promotion(recalled.state, recalled.completion_result or "", started_at, steps, error=error))


def _shown_error(recalled: PromotionRunStatus) -> str:
    shown = (each for each in recalled.conditions or () if (each.type, each.status) == (ERROR, "True"))
    return next((each.message for each in shown), "")


def _recalled(shown: EnvironmentStep, newest: int, at: datetime) -> Step:
    """A step of the status, which does not show its level. A step in progress is on the newest level."""
    is_open = shown.status == "In Progress"
    level = newest if is_open else shown.step - 1
    due_at, display = at + TIME_FOR_A_STEP, shown.display_status
    return Step(shown.environment_name, level, due_at, shown.status, display, is_recalled=is_open)


def _with_error(step: Step, error: str) -> Step:
    """The step with the error of its run, if that made it fail: then its display ends with the error."""
    is_why = step.status == "Failed" and readable(step.display).endswith(readable(error))
    return replace(step, error=error) if is_why and not step.error else step


@TEXTS.remember
def _promotion(text: str) -> Promotion:
    kept: dict[str, Any] = orjson.loads(text)
    return Promotion(
        state=kept["state"],
        result=kept["result"],
        started_at=_time(kept["startedAt"]),
        steps=tuple(_with_error(_step(each), kept["error"]) for each in kept["steps"]),
        behind=kept["behind"],
        error=kept["error"],
    )


def _step(kept: dict[str, Any]) -> Step:
    return Step(
        environment=kept["environment"],
        level=kept["level"],
        due_at=datetime.fromisoformat(kept["dueAt"]),
        status=kept["status"],
        display=kept["display"],
        error=kept.get("error", ""),  # rows of older releases have that of their run alone
        binding=kept["binding"],
        before=_before(kept),
        answer_due=_time(kept["answerDue"]),
        is_recalled=kept.get("recalled", False),  # rows of older releases do not tell
        images=kept.get("images", ""),  # likewise
    )


def _before(kept: dict[str, Any]) -> Before | None:
    """Rows of older releases have less: what they call unchanged was not known to be so."""
    if kept["reported"] is None:
        return None
    return Before(kept["reported"], tuple(kept.get("deployed", ())), tuple(kept.get("sameImages", ())))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _time_text(time: datetime | None) -> str:
    return time.isoformat() if time is not None else ""
