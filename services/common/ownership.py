"""The label of objects that the service owns, and the field managers of the fields that it owns.

Do not change them: existing objects and fields would no longer be recognised.
"""

from __future__ import annotations

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gitops-service"
OURS = {MANAGED_BY: MANAGER}
"""The label as manifests carry it."""

FIELD_MANAGER = "gitops-service"
WATCHER_FIELD_MANAGER = "gitops-watcher"
"""Owns the statuses that the watchers write, and what they apply of child objects."""
AGENT_FIELD_MANAGER = "gitops-service-agent"
"""Owns what the agents apply."""
SYNC_FIELD_MANAGER = "gitops-service-sync"
"""Owns what starts and ends a sync: what the other manager applies leaves it alone."""
