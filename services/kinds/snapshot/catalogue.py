"""Conditions of a Snapshot, in quotaConditions: other services write its conditions."""

from __future__ import annotations

from services.kinds.shared.catalogue import PARKED, QUOTA_EXCEEDED, RESOLVED

ENTRIES = (QUOTA_EXCEEDED, RESOLVED, *PARKED)
