"""How much work Argo CD has with an object, in tenths of an Application. Estimates by how it works, not measurements.

- **Application, 10.** Compared with its repository and its cluster in each reconciliation interval, and at each change.
- **Cluster, 50.** The controller watches each kind of resource there that it may see, and keeps all of them in memory,
  however few Applications deploy to it: as much as five Applications.
- **Repository, 20.** The repo server keeps a clone and asks for its newest commits in each interval, once for all
  Applications that are deployed from it.
- **Project, 1.** Looked up at each comparison; nothing is watched or fetched for it.

What else a row can be is an order to the agent, and no work that stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from services.common.messages import RowKind
from services.planner.engines.interface import DEPLOYMENT_LOAD

LOADS: Mapping[str, int] = {
    RowKind.APPLICATION.value: DEPLOYMENT_LOAD,
    RowKind.CLUSTER_SECRET.value: 50,
    RowKind.REPOSITORY_SECRET.value: 20,
    RowKind.APP_PROJECT.value: 1,
}
"""Of one object, by the kind of its row."""
