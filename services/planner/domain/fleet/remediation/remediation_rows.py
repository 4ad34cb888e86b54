"""Rows of remediations as values: how far each engine instance is on the ladder, and what agents report of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import orjson

from services.planner.domain.fleet.remediation.rungs import Rung, rung_named

ACTOR = "remediation"
"""Who orders the moves of an evacuation, and instances that take the place of others."""
RemediationState = Literal["waiting", "held", "acting", "recovering", "exhausted", "well"]
RemedyOutcome = Literal["", "done", "skipped"]


@dataclass(frozen=True, slots=True)
class Remediation:
    """A row of ``remediations``; an instance that was never ill has none."""

    engine_instance_id: str
    state: RemediationState
    """``waiting``: until it has been ill for long enough, or for another instance of its ring. ``held``: too many
    instances are ill. ``acting``: a remedy may help yet. ``recovering``: it is healthy, but not for long.
    ``exhausted``: planners can do nothing else. ``well``: only :attr:`number` counts, from which numbers go on."""
    number: int
    """Number of the newest remedy: when it was taken, in milliseconds since 1970; higher than any before."""
    rung: str
    """The newest remedy since it became ill; empty: none."""
    tried: str
    """JSON of all remedies since then, in their order; without one that was held before it had had its time."""
    is_cordoned: bool
    """Whether no new tenant is placed on it, and none is moved to it."""
    message: str
    """Why it is in this state, for operators."""
    since: datetime
    """When it came into this state, or to this rung."""
    due_at: datetime | None
    """When to look at it again, even if nothing happens."""
    replaced_by: str = ""
    """The instance that was ordered last in its place; empty: none was. It stays when this one is well again."""
    told_number: int = 0
    """Number of the remedy that an agent reported on last; the next two fields are that report. The planner that
    receives the report writes these three."""
    told_outcome: RemedyOutcome = ""
    told_message: str = ""

    def with_state(self, state: RemediationState, message: str, now: datetime, due: datetime) -> Remediation:
        """The row with this state, since ``now`` if the state changes, to be looked at again when it is ``due``."""
        since = self.since if self.state == state else now
        return replace(self, state=state, message=message, since=since, due_at=due)

    def without_remedies(self, message: str, now: datetime) -> Remediation:
        """The row of an instance that is well, without a cordon."""
        return replace(
            self, state="well", rung="", tried="[]", is_cordoned=False, message=message, since=now, due_at=None
        )

    @property
    def remedies(self) -> tuple[str, ...]:
        """Remedies tried since it became ill: they have had their time, or have it, or an agent has reported."""
        counted = tuple(orjson.loads(self.tried))
        return (*counted, self.rung) if self._is_reported and self.rung not in counted else counted

    def has_tried(self, rung: Rung) -> bool:
        """Whether a rung is one of :attr:`remedies`."""
        return rung.name in self.remedies

    @property
    def newest(self) -> Rung:
        """The newest remedy since it became ill, if :attr:`rung` names one."""
        return rung_named(self.rung)

    @property
    def is_of_agent(self) -> bool:
        """Whether the newest remedy is one that an agent carries out."""
        return self.newest.executor == "agent"

    @property
    def taken_at(self) -> datetime:
        """When the newest remedy was taken."""
        return datetime.fromtimestamp(self.number / 1000, UTC)

    @property
    def is_skipped(self) -> bool:
        """Whether its agent has reported that it cannot carry the newest remedy out."""
        return self._is_reported and self.told_outcome == "skipped"

    @property
    def _is_reported(self) -> bool:
        """Whether its agent has reported on the newest remedy."""
        return self.is_of_agent and self.told_number == self.number and self.told_outcome != ""


@dataclass(frozen=True, slots=True)
class RemedyReport:
    """An agent's report on a remedy. It has no effect unless the remedy is the newest."""

    engine_instance_id: str
    number: int
    outcome: RemedyOutcome
    message: str
