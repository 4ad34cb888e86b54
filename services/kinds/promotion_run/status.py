"""The status of a PromotionRun."""

from __future__ import annotations

from datetime import datetime

from services.common.times import rfc3339
from services.kinds.promotion_run import catalogue as texts
from services.kinds.promotion_run.model import PromotionRunSpec
from services.kinds.promotion_run.rules import Promotion
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.conditions import (
    ActiveConditions,
    ConditionState,
    Json,
    compile_status,
    parsed_status,
    recurring_states,
)
from services.kinds.shared.text import readable

MAX_DISPLAY_STATUS = 4096
"""Others write some of the words in it: commits, and what is wrong with a binding."""


def promotion_status(
    previous: str, spec: PromotionRunSpec, promotion: Promotion, throttled: ActiveConditions, at: datetime
) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed."""
    error: ConditionState = ("True", ERROR, promotion.error) if promotion.error else texts.NO_ERROR.state
    states = {ERROR: error} | recurring_states(throttled, parsed_status(previous))
    part: Json = {"state": promotion.state, "environmentStatus": _steps(spec, promotion)}
    part |= {"activeBindings": [*promotion.active_bindings]} if promotion.active_bindings else {}
    part |= {"completionResult": promotion.result} if promotion.result else {}
    part |= {"promotionStartTime": rfc3339(promotion.started_at)} if promotion.started_at else {}
    return compile_status(previous, states, at, part)


def _steps(spec: PromotionRunSpec, promotion: Promotion) -> list[Json]:
    """A run that waits for another one shows the step that it will begin with."""
    if promotion.behind and not promotion.steps:
        first = spec.target_environment or spec.initial_environment
        return [_step(1, first, "In Progress", texts.WAITS_FOR_RUN.format(run=promotion.behind))]
    return [
        _step(number, step.environment, step.status, step.display) for number, step in enumerate(promotion.steps, 1)
    ]


def _step(number: int, environment: str, status: str, display: str) -> Json:
    shown = readable(display)[:MAX_DISPLAY_STATUS]
    return {"step": number, "environmentName": environment, "status": status, "displayStatus": shown}
