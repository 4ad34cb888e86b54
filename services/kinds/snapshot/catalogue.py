"""Conditions of a Snapshot, in quotaConditions: other services write its conditions."""

from __future__ import annotations

from services.kinds.shared.catalogue import QUOTA_EXCEEDED, RESOLVED, TENANT_PARKED

ENTRIES = (QUOTA_EXCEEDED, RESOLVED, TENANT_PARKED)
