"""How much an instance carries: what it holds for tenants, each object by the work that Argo CD has with it. Pure.

A load is a whole number, in tenths of an Application. Weights are estimates by how Argo CD works, not measurements:

- **Application, 10.** Compared with its repository and its cluster in each reconciliation interval, and at each change.
- **Cluster, 50.** The controller watches each kind of resource there that it may see, and keeps all of them in memory,
  however few Applications deploy to it: as much as five Applications.
- **Repository, 20.** The repo server keeps a clone and asks for its newest commits in each interval, once for all
  Applications that are deployed from it.
- **Project, 1.** Looked up at each comparison; nothing is watched or fetched for it.
- **Waiting Application, 10.** One that waits to be compared is asked for more comparisons than its instance makes: it
  counts once more. Only what has waited for a whole minute is told as the queue (``EngineHealth.queue``), so the burst
  of a restart or of a push to a shared repository places no tenant elsewhere.

What else a row can be is an order to the agent, and no work that stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.common.messages import RowKind

WEIGHTS: Mapping[str, int] = {
    RowKind.APPLICATION: 10,
    RowKind.CLUSTER_SECRET: 50,
    RowKind.REPOSITORY_SECRET: 20,
    RowKind.APP_PROJECT: 1,
}
"""Of one object, by its kind."""
WAITING = 10
"""Of one Application that waits to be compared, besides its own."""


def in_applications(load: int) -> float:
    """As operators are shown it: an Application is one."""
    return load / WEIGHTS[RowKind.APPLICATION]


def load_of_objects(counts: Iterable[tuple[str, int]]) -> int:
    """Of so many objects of each kind."""
    return sum(WEIGHTS.get(kind, 0) * count for kind, count in counts)


def measured_load(counts: Iterable[tuple[str, int]], queue: int) -> int:
    """Of an instance that holds so many objects of each kind, of which ``queue`` Applications wait to be compared."""
    return load_of_objects(counts) + WAITING * queue
