"""Since when a claim waits for a provisioner of others. Its row stores that in ``progress``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from services.common.json_values import canonical, text_of
from services.kinds.deployment_target_claim.catalogue import MINUTES, NOT_PROVISIONED
from services.kinds.deployment_target_claim.provisioning import READY_WITHIN
from services.kinds.shared.conditions import parsed_status
from services.kinds.shared.resource import PlainResource


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait for a provisioner of others."""

    provisioner: str
    since: datetime

    @property
    def late_at(self) -> datetime:
        """When it has lasted too long."""
        return self.since + READY_WITHIN

    @classmethod
    def of(cls, row: PlainResource) -> Self | None:
        """The wait in a row; None: it waits for no provisioner of others."""
        if not row.progress:
            return None
        remembered = parsed_status(row.progress)
        since = text_of(remembered.get("since"))
        return cls(text_of(remembered.get("provisioner")), datetime.fromisoformat(since)) if since else None


def with_wait(row: PlainResource, provisioner: str, now: datetime) -> PlainResource:
    """The row with its wait for ``provisioner``, which is empty if it waits for none of others."""
    if not provisioner:
        return replace(row, progress="") if row.progress else row
    wait = Wait.of(row)
    if wait is not None and wait.provisioner == provisioner:
        return row
    return replace(row, progress=canonical({"provisioner": provisioner, "since": now.isoformat()}))


def late_error(row: PlainResource, now: datetime) -> str:
    """The error of what it waits for; empty: none yet."""
    wait = Wait.of(row)
    if wait is None or now < wait.late_at:
        return ""
    return NOT_PROVISIONED.text(name=wait.provisioner, minutes=MINUTES, class_name=row.refers_to)
