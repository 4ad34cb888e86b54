"""Remedies that an agent can apply to an ill engine instance, ordered by a row of the instance.

The row's kind is :data:`REMEDY`. Its name is the order's number: its time in milliseconds since 1970, and greater than
that of any earlier order. The manifest has the same number, and the remedy. An order is level-based: the agent makes
sure that no pods are older than the order, or that all Applications were asked to compare since. So an order may be
carried out again, and changes nothing then.
"""

from __future__ import annotations

from enum import StrEnum

REMEDY = "Remedy"
"""Kind of a row without a tenant. An older agent refuses it, and does nothing."""


class Remedy(StrEnum):
    """A remedy, by the name of its rung."""

    REFRESH = "Refresh"
    """Argo CD compares late Applications anew, without its cache."""
    RESTART_CONTROLLER = "RestartController"
    RESTART_REPO_SERVER = "RestartRepoServer"
    FLUSH_CACHE = "FlushCache"
    """Argo CD's Redis, which stores nothing on disk, is restarted."""
