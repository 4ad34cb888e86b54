"""What an agent can do for an engine instance that is not well, ordered by a row of the instance.

The row's kind is :data:`REMEDY`, and its name the order's number: when it was given, in milliseconds since 1970, and
more than that of any order before. The manifest holds the same number, and which remedy it is. An order is
level-based: the agent makes true that nothing is left that is older than the order (pods), or that has not been asked
for it (Applications), so that it may be carried out again and changes nothing then.
"""

from __future__ import annotations

from enum import StrEnum

REMEDY = "Remedy"
"""Kind of a row that is of no tenant; an agent that does not know it refuses it, and does nothing."""


class Remedy(StrEnum):
    """By its rung's name."""

    REFRESH = "Refresh"
    """Argo CD compares what it is late with anew, without what it has cached."""
    RESTART_CONTROLLER = "RestartController"
    RESTART_REPO_SERVER = "RestartRepoServer"
    FLUSH_CACHE = "FlushCache"
    """Its Redis, which keeps nothing on disk, is restarted."""
