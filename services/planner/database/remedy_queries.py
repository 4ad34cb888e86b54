"""Reads which engine instances are ill, and what is done for them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_args

from psycopg import Connection

from services.common.messages import BY_HAND, Health
from services.planner.database.columns import names
from services.planner.domain.fleet.remediation.remediation_rows import Remediation, RemediationState
from services.planner.domain.fleet.remediation.rungs import RUNGS
from services.planner.domain.fleet.reports.report_rows import OUT_OF_REACH, SILENT

IS_DOWN = f"coalesce(health = '{Health.DOWN.value}' OR health_reason = '{SILENT}', false)"
"""``InstanceHealth.is_down``, of a row of ``engine_instances``."""
REASONS_BY_HAND = ", ".join(f"'{reason}'" for reason in BY_HAND)
REMEDIES = ", ".join(f"'{name}'" for name, rung in RUNGS.items() if rung.executor == "agent")
IS_OUT_OF_REACH = f"""
({IS_DOWN} AND health_reason IN ({", ".join(f"'{reason}'" for reason in OUT_OF_REACH)}))
"""
IS_CORDONED = "EXISTS (SELECT FROM remediations r WHERE r.engine_instance_id = engine_instances.id AND r.is_cordoned)"
REMEDIATIONS = f"SELECT {names(Remediation)} FROM remediations ORDER BY engine_instance_id"
HELD = "SELECT engine_instance_id FROM remediations WHERE state = 'held'"
CORDONED = "SELECT engine_instance_id, message FROM remediations WHERE is_cordoned"
IS_WORKING = f"""
(i.health = '{Health.HEALTHY.value}'
 OR (i.health = '{Health.DEGRADED.value}' AND i.health_reason IN ({REASONS_BY_HAND})))
"""
# Nobody has looked at an instance since it fell ill if it has no row, or one that says that it is healthy. One that is
# well before its first remedy is looked at, too: when that is due is of the time that it was ill.
IS_REMEDY_DUE = f"""
SELECT EXISTS (
    SELECT FROM remediations
     WHERE due_at <= %(now)s
        OR (state = 'acting' AND rung IN ({REMEDIES}) AND told_number = number AND told_outcome = 'skipped')
        OR (state = 'waiting' AND rung = '' AND EXISTS (SELECT FROM engine_instances i
                                                         WHERE i.id = engine_instance_id AND {IS_WORKING}))
        OR (state <> 'well' AND NOT %(is_on)s)
        OR (state <> 'well' AND EXISTS (SELECT FROM engine_instances i
                                         WHERE i.id = engine_instance_id AND i.state = 'retired'))
) OR %(is_on)s AND EXISTS (
    SELECT FROM engine_instances i
      LEFT JOIN remediations r ON r.engine_instance_id = i.id AND r.state NOT IN ('well', 'recovering')
     WHERE i.state NOT IN ('provisioning', 'failed', 'retired') AND r.engine_instance_id IS NULL
       AND (i.health = '{Health.DOWN.value}' OR i.health_reason = '{SILENT}'
        OR (i.health = '{Health.DEGRADED.value}' AND i.health_reason NOT IN ({REASONS_BY_HAND})))
)
"""
COUNT_REMEDIATIONS = "SELECT state, count(*) FROM remediations GROUP BY 1"


def load_remediations(connection: Connection[Any]) -> dict[str, Remediation]:
    """Of all instances that are ill or have been, by their ids."""
    rows = [Remediation(*row) for row in connection.execute(REMEDIATIONS)]
    return {row.engine_instance_id: row for row in rows}


def is_remedy_due(connection: Connection[Any], now: datetime, *, is_on: bool) -> bool:
    """Whether an instance has to be looked at that is ill or has been; ``is_on``: something is done for them."""
    row = connection.execute(IS_REMEDY_DUE, {"now": now, "is_on": is_on}).fetchone()
    return row is not None and row[0]


def count_remediations(connection: Connection[Any]) -> dict[str, int]:
    """How many engine instances are in each state of a remediation; none of those that are well."""
    found = dict(connection.execute(COUNT_REMEDIATIONS).fetchall())
    return {state: found.get(state, 0) for state in get_args(RemediationState) if state != "well"}
