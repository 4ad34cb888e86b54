"""The status of a PromotionRun."""

from __future__ import annotations

from datetime import datetime

from services.common.times import rfc3339
from services.kinds.promotion_run import catalogue as texts
from services.kinds.promotion_run.model import PromotionRunSpec
from services.kinds.promotion_run.rows import promotion_of
from services.kinds.promotion_run.rules import Promotion
from services.kinds.shared.catalogue import ERROR
from services.kinds.shared.conditions import (
    ActiveConditions,
    ConditionState,
    Json,
    compile_status,
    parsed_status,
    recurring_states,
    throttling,
)
from services.kinds.shared.incarnation import refusal_of
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.text import readable

MAX_DISPLAY_STATUS = 4096
"""Characters. Some of the text comes from others: commits, and problems of a binding."""


def run_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status of a run; ``inputs.previous`` if nothing has changed."""
    row, previous, throttled = inputs.resource, inputs.previous, throttling(inputs.resource.held_back_ms)
    refusal = refusal_of(row)
    if refusal is None:
        spec = spec_of(PromotionRunSpec, row)
        return promotion_status(previous, spec, promotion_of(row), throttled, inputs.at)
    before = parsed_status(previous)
    states = {ERROR: ("True", ERROR, refusal.message)} | recurring_states(throttled, before)
    rest = {name: part for name, part in before.items() if name != "conditions"}
    return compile_status(previous, states, inputs.at, rest)


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
    """The steps. A run that waits for another one shows the step with which it will begin or continue."""
    waits = texts.WAITS_FOR_RUN.format(run=promotion.behind) if promotion.behind else ""
    if waits and not promotion.steps:
        return [_step(1, spec.target_environment or spec.initial_environment, "In Progress", waits)]
    return [
        _step(number, step.environment, step.status, (step.status == "In Progress" and waits) or step.display)
        for number, step in enumerate(promotion.steps, 1)
    ]


def _step(number: int, environment: str, status: str, display: str) -> Json:
    shown = readable(display)[:MAX_DISPLAY_STATUS]
    return {"step": number, "environmentName": environment, "status": status, "displayStatus": shown}
