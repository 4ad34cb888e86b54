"""The workspace edge: what users write becomes commands, what the planner compiled becomes their status.

It decides nothing. ``commands/`` follows custom resources and sends each change to ``gitops.commands``; ``status/``
reads ``gitops.workspace.<WORKSPACE>`` and writes each row's status to its resource.
"""

SERVICE = "watcher"
"""Our name in logs, metrics and dead letters."""

FIELD_MANAGER = "gitops-watcher"
"""Our name in the managed fields of what we write."""
