"""What was decided of a claim or a target, as its row keeps it, and the status that shows it.

A decision counts from the plan on that made it, not from when the resource itself says so: a watcher may be about to
write it. Where the database is lost the resource, and the status that it recalls, tell.
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
    """A decision. Empty: there was none."""

    phase: str = ""
    other: str = ""
    """Of a claim the target that it has, of a target the claim that has it, or had it and because of which it goes."""

    @classmethod
    def of(cls, resource: PlainResource) -> Self:
        """What was decided of ``resource``."""
        kept = parsed_status(resource.accepted)
        return cls(text_of(kept.get("phase")), text_of(kept.get("other")))

    def kept_in(self, resource: PlainResource, error: str) -> PlainResource:
        """The row with this decision, and with what is wrong with the resource; the same row if it has both."""
        why = Refused("True", ERROR, error) if error else None
        now = replace(refuse_resource(resource, why), accepted=canonical(asdict(self)))
        return resource if now == resource else now


def recalled_phase(status: str) -> str:
    """What a row keeps of a status that was written before the database was lost."""
    return canonical(asdict(Decided(text_of(parsed_status(status).get("phase")))))


def phase_status(inputs: StatusInputs, no_error: Entry) -> str:
    """Canonical JSON of a status with a phase and the condition ErrorOccurred; ``previous`` if nothing has changed."""
    resource, refusal = inputs.resource, refusal_of(inputs.resource)
    state = no_error.state if refusal is None else ("True", ERROR, refusal.message)
    others = recurring_states(throttling(resource.held_back_ms), parsed_status(inputs.previous))
    phase = Decided.of(resource).phase
    return compile_status(inputs.previous, {ERROR: state} | others, inputs.at, {"phase": phase} if phase else {})
