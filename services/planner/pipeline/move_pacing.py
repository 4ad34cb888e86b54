"""Has moves give way while changes of others wait. Called by the periodic tasks.

What it knows is not kept: a planner that takes the fleet's partition up finds out within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from services.common.telemetry.metrics import MOVES_PACED
from services.planner.database.move_queries import find_waiting_clusters
from services.planner.domain.fleet.moves.pace import Pace, next_paces
from services.planner.pipeline.loop import Planner

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class MovePacing:
    """Of one planner."""

    _paces: Mapping[str, Pace] = field(default_factory=dict)
    """By engine cluster."""

    def look(self, planner: Planner) -> None:
        """Find out in which engine clusters changes wait, if moves wait to begin."""
        if planner.consumer.fleet_partition is None:
            return
        policy, now = planner.policy, planner.clock.now()
        with planner.session.connection() as connection:
            waiting = find_waiting_clusters(connection, now, policy.moves_give_way)
        before = self._paces
        self._paces = {} if waiting is None else next_paces(before, waiting, now, policy.moves_at_once)
        for cluster in self._paces.keys() - before.keys():
            log.info("changes wait: moves give way", engine_cluster=cluster)
        MOVES_PACED.clear()
        for cluster, pace in self._paces.items():
            MOVES_PACED.labels(cluster).set(pace.places)
        planner.session.paced = {cluster: pace.places for cluster, pace in self._paces.items()}
