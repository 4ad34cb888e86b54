"""The status of an Environment."""

from __future__ import annotations

from services.kinds.shared.conditions import (
    compile_status,
    parsed_status,
    recurring_states,
    throttling,
)
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.reconciled import Problem, pair_without_problem


def environment_status(inputs: StatusInputs) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed.

    An environment that never had a problem has no conditions.
    """
    before, problem = parsed_status(inputs.previous), Problem.shown_by(inputs.resource)
    throttled = recurring_states(throttling(inputs.resource.held_back_ms), before)
    pair = problem.pair if problem is not None else pair_without_problem(before.get("conditions", ()))
    return compile_status(inputs.previous, {**pair, **throttled}, inputs.at)
