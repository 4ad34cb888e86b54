"""The workspace edge: what users write becomes commands, what the planner compiled becomes their status.

It decides nothing. Downward, :mod:`feed` follows custom resources and sends each change to ``gitops.commands``;
upward, :mod:`rows` reads ``gitops.workspace`` and :mod:`reporter` writes each row's status to its resource.
"""

SERVICE = "watcher"
"""Our name in logs, metrics and dead letters."""
