"""The decision about a claim or target, as its row stores it, and the status that shows it.

A decision is in force from the plan that made it, even before the resource itself shows it, because a watcher may be
about to write it. If the database was lost, the decision comes from the resource and its recalled status.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Self

from services.common.json_values import canonical, text_of
from services.kinds.shared.catalogue import ERROR, Entry
from services.kinds.shared.conditions import (
    Refused,
    compile_status,
    parsed_status,
    recurring_states,
    throttling,
)
from services.kinds.shared.incarnation import refusal_of, refuse_resource
from services.kinds.shared.kind import StatusInputs
from services.kinds.shared.resource import PlainResource


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision; empty if there is none."""

    phase: str = ""
    other: str = ""
    """For a claim its target. For a target the claim that has it, or whose end is the reason for its deletion."""

    @classmethod
    def of(cls, resource: PlainResource) -> Self:
        """The decision about ``resource``."""
        kept = parsed_status(resource.accepted)
        return cls(text_of(kept.get("phase")), text_of(kept.get("other")))

    def kept_in(self, resource: PlainResource, error: str) -> PlainResource:
        """The row with this decision and the resource's error; the same row if it has both."""
        why = Refused("True", ERROR, error) if error else None
        now = replace(refuse_resource(resource, why), accepted=canonical(asdict(self)))
        return resource if now == resource else now


def recalled_phase(status: str) -> str:
    """The phase to store from a status that was written before the database was lost."""
    return canonical(asdict(Decided(text_of(parsed_status(status).get("phase")))))


def phase_status(inputs: StatusInputs, no_error: Entry) -> str:
    """Canonical JSON of a status with a phase and the condition ErrorOccurred; ``previous`` if nothing has changed."""
    resource, refusal = inputs.resource, refusal_of(inputs.resource)
    state = no_error.state if refusal is None else ("True", ERROR, refusal.message)
    others = recurring_states(throttling(resource.held_back_ms), parsed_status(inputs.previous))
    phase = Decided.of(resource).phase
    return compile_status(inputs.previous, {ERROR: state} | others, inputs.at, {"phase": phase} if phase else {})
