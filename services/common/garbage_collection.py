"""How often a process looks for objects in cycles that nobody else holds."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Look for cycles among young objects mainly; among those that are there by now not at all.

    An agent that took over 12,500 rows spent a third of the time on collections that found nothing, and some stopped
    its loop for a second; a planner that looked at 8,000 moves likewise. Rows and live objects are many, stay, and are
    in no cycles.
    """
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
