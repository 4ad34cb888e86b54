"""The workspace edge: what users write becomes commands, what the planner compiled their status and children.

It decides nothing. ``commands/`` follows custom resources and sends each change to ``gitops.commands``; ``rows/`` reads
``gitops.workspace.<WORKSPACE>`` and writes each row's status to its resource, and ``gitops.objects.<WORKSPACE>`` and
applies each row's child object.
"""

SERVICE = "watcher"
"""Our name in logs, metrics and dead letters."""
