"""The status of an Environment."""

from __future__ import annotations

from datetime import datetime

from services.kinds.shared.conditions import (
    ActiveConditions,
    compile_status,
    parsed_status,
    recurring_states,
)
from services.kinds.shared.reconciled import Problem, pair_without_problem


def environment_status(previous: str, problem: Problem | None, throttled: ActiveConditions, at: datetime) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed.

    An environment that never had a problem has no conditions.
    """
    before = parsed_status(previous)
    pair = problem.pair if problem is not None else pair_without_problem(before.get("conditions", ()))
    return compile_status(previous, {**pair, **recurring_states(throttled, before)}, at)
