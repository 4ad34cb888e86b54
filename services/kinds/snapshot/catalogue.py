"""Conditions of a Snapshot: other services write theirs, which are not listed here."""

from __future__ import annotations

from services.kinds.shared.catalogue import QUOTA_EXCEEDED, RESOLVED, TENANT_PARKED, THROTTLING

ENTRIES = (QUOTA_EXCEEDED, RESOLVED, TENANT_PARKED, *THROTTLING)
