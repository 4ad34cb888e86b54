"""Writes parked tenants, complete lists and their sweeps. The offsets are moved by the fence in ``save.py``."""

from __future__ import annotations

from services.planner.database.columns import IDS, names, recordset, upsert
from services.planner.database.tables.consumption import complete_lists, parked_tenants, refused_sweeps
from services.planner.domain.events import SweepScope
from services.planner.rows.consumption import ParkedEvent, ParkedTenant, RefusedSweep, SweepPart

PARKED = upsert(parked_tenants, ParkedTenant, kept=["parked_at"])
PARKED_EVENTS = f"INSERT INTO parked_events ({names(ParkedEvent)}) SELECT * FROM {recordset(ParkedEvent, 'kept')}"
UNPARKED = f"DELETE FROM parked_tenants WHERE tenant_id IN {IDS}"

# A marker that comes late does not hide what a newer one would remove.
REFUSED_SWEEPS = upsert(refused_sweeps, RefusedSweep, only="known.epoch <= EXCLUDED.epoch")

SWEEPS_DONE = f"""
DELETE FROM refused_sweeps AS refused
 USING {recordset(SweepScope, "done")}
 WHERE (refused.source, refused.kind, refused.partition) = (done.source, done.kind, done.partition)
   AND refused.epoch <= done.epoch
"""

SWEEP_PARTS = f"INSERT INTO sweep_parts ({names(SweepPart)}) SELECT * FROM {recordset(SweepPart, 'decided')}"
SWEEP_PARTS_DONE = "DELETE FROM sweep_parts WHERE number IN (SELECT value::int8 FROM json_array_elements_text($1))"

COMPLETE_LISTS = upsert(complete_lists, SweepScope, only="known.epoch < EXCLUDED.epoch")
