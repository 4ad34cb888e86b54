"""Since when a claim waits for a provisioner of others: its row remembers that, in ``progress``."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from services.common.json_values import canonical, text_of
from services.kinds.deployment_target_claim.catalogue import MINUTES, NOT_PROVISIONED
from services.kinds.deployment_target_claim.provisioning import READY_WITHIN
from services.kinds.shared.conditions import parsed_status
from services.kinds.shared.resource import PlainResource


def with_wait(row: PlainResource, provisioner: str, now: datetime) -> PlainResource:
    """The row that remembers since when it waits for ``provisioner``, which is empty if it waits for none of others."""
    if not provisioner:
        return replace(row, progress="") if row.progress else row
    if _provisioner(row) == provisioner:
        return row
    return replace(row, progress=canonical({"provisioner": provisioner, "since": now.isoformat()}))


def late_at(row: PlainResource) -> datetime | None:
    """When it has waited for too long; None: it waits for no provisioner of others."""
    since = text_of(parsed_status(row.progress).get("since")) if row.progress else ""
    return datetime.fromisoformat(since) + READY_WITHIN if since else None


def late_error(row: PlainResource, now: datetime) -> str:
    """What is wrong with what it waits for; empty: nothing is yet."""
    late = late_at(row)
    if late is None or now < late:
        return ""
    return NOT_PROVISIONED.text(name=_provisioner(row), minutes=MINUTES, class_name=row.refers_to)


def _provisioner(row: PlainResource) -> str:
    return text_of(parsed_status(row.progress).get("provisioner")) if row.progress else ""
