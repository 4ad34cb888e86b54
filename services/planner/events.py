"""What a plan is made from: messages as they were taken up, in the order in which they count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from services.common.messages import Command, Observation
from services.planner.rows import Cause


@dataclass(frozen=True, slots=True)
class Due:
    """Not a message but the clock asks to look at a CR: its deletion takes long, there is room for it, and the like."""

    workspace: str
    namespace: str
    id: UUID
    at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One message; ``partition`` is that of its topic, the same for all messages of a tenant."""

    message: Command | Observation | Due
    partition: int
    trace_id: str

    @property
    def cause(self) -> Cause:
        """When it happened, by the clock of the edge that saw it, and its trace."""
        match self.message:
            case Command(seen_at=at) | Observation(observed_at=at) | Due(at=at):
                return Cause(at, self.trace_id)
