"""Decides what must be true elsewhere, and is the only writer of the database."""

SERVICE = "planner"
"""Our name in logs, metrics and dead letters."""
