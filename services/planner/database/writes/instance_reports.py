"""Writes what agents and provisioners report of engine instances."""

from __future__ import annotations

from services.planner.database.columns import NAMES, columns_of, names, recordset, upsert
from services.planner.database.tables.instance_reports import engine_health, engine_samples, kept_orphans
from services.planner.domain.fleet.reports.report_rows import Installation, InstanceHealth, KeptOrphans
from services.planner.domain.fleet.rollouts.rollout_rows import EngineSample

# Of instances that there are, also of retired ones: whoever may report could else fill the table with names.
INSTALLATIONS = f"""
INSERT INTO engine_installations AS known ({names(Installation)})
SELECT {names(Installation, "reported")}
  FROM {recordset(Installation, "reported")} JOIN engine_instances i ON i.id = reported.engine_instance_id
    ON CONFLICT (engine_instance_id) DO UPDATE
   SET {", ".join(f"{column} = EXCLUDED.{column}" for column in columns_of(Installation)[1:])}
 WHERE known.reported_at <= EXCLUDED.reported_at
"""

ENGINE_HEALTH = upsert(engine_health, InstanceHealth)

# Streamed, so it is written only when it is news. The other columns are the planner's that decides on the fleet.
HEALTH_OF_INSTANCES = f"""
UPDATE engine_instances AS known
   SET health = reported.health, health_reason = reported.reason, version = reported.version
  FROM {recordset(InstanceHealth, "reported")}
 WHERE known.id = reported.engine_instance_id
   AND (known.health, known.health_reason, known.version)
       IS DISTINCT FROM (reported.health, reported.reason, reported.version)
"""

ENGINE_SAMPLES = upsert(engine_samples, EngineSample)

KEPT_ORPHANS = upsert(kept_orphans, KeptOrphans)
KEPT_ORPHANS_GONE = f"DELETE FROM kept_orphans WHERE engine_instance_id IN {NAMES}"
