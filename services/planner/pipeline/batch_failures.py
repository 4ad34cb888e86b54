"""What happens when a batch, or a periodic task, cannot be done: its transaction ends, and operators see the reason."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from services.common.telemetry import Heartbeat
from services.common.telemetry.metrics import Failure, count_failure
from services.planner import SERVICE
from services.planner.database.save import Fenced
from services.planner.database.session import DatabaseSession

log = structlog.get_logger(__name__)


@dataclass
class BatchFailures:
    """The failures of one planner."""

    session: DatabaseSession
    heartbeat: Heartbeat
    latest: str = ""
    """Why the work in hand cannot be done; empty if it can. Readiness shows it."""

    def record_failure(self, error: Exception) -> None:
        """Abandon the transaction, count ``error`` and log it."""
        self.session.abandon_transaction()
        self.latest = str(error)
        self.heartbeat.beat()
        count_failure(SERVICE, Failure.FENCED if isinstance(error, Fenced) else error, "batch")
        log.warning("batch not done", error=str(error), type=type(error).__name__)

    def clear_failure(self) -> None:
        """The work in hand is done."""
        self.latest = ""
