"""How often Python looks for unreachable cycles of objects."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Look for cycles mainly among young objects, and never among those that exist now.

    An agent that took over 12,500 rows spent a third of the time on collections that found nothing, and some stopped
    its loop for a second. A planner that looked at 8,000 moves did the same. Rows and live objects are many, stay, and
    are in no cycles.
    """
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
