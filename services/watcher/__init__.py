"""The workspace edge: turns what users write into commands, and writes compiled statuses and child objects.

The watcher decides nothing. ``commands/`` follows custom resources and sends each change to ``gitops.commands``.
``rows/`` reads ``gitops.workspace.<WORKSPACE>`` and writes each row's status to its resource; it also reads
``gitops.objects.<WORKSPACE>`` and applies each row's child object.
"""

SERVICE = "watcher"
"""Our name in logs, metrics and dead letters."""
