"""How many processes of a service a stack has, and what they are called."""

from __future__ import annotations

REPLICATED = ("watcher", "planner")
"""Of which there may be several: ``planner-1``, ``planner-2``. Of agents there are two in any case."""

MOST_REPLICAS = 2
"""So many have a port."""


def processes_of(service: str, replicas: int) -> tuple[str, ...]:
    """Names of the processes of ``service``, one of :data:`REPLICATED` or not."""
    several = service in REPLICATED and replicas > 1
    return tuple(f"{service}-{number}" for number in range(1, replicas + 1)) if several else (service,)
