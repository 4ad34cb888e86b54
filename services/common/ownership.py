"""The label of objects that the service owns, and the field managers of the fields that it owns.

Do not change them: existing objects and fields would no longer be recognised.
"""

from __future__ import annotations

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "gitops-service"
OURS = {MANAGED_BY: MANAGER}
"""Our label, as manifests have it."""

FIELD_MANAGER = "gitops-service"
WATCHER_FIELD_MANAGER = "gitops-watcher"
"""Owns the statuses that watchers write, and the fields of child objects that they apply."""
AGENT_FIELD_MANAGER = "gitops-service-agent"
"""Owns the fields that agents apply."""
SYNC_FIELD_MANAGER = "gitops-service-sync"
"""Owns the fields that start and end a sync, so that the agents' applies do not touch them."""
