"""Writes the audit of resources and of the fleet."""

from __future__ import annotations

from dataclasses import fields

from services.planner.database.columns import names, recordset, upsert
from services.planner.database.tables.audit import audit_records
from services.planner.domain.audit import RESTORED_ACTOR
from services.planner.domain.fleet.rows import FleetOrderRecord
from services.planner.rows.audit import AuditedChange, AuditOutcome, AuditRecord

# Of a resource that was restored a former change may have the id of this one.
AUDIT_DISPLACED = f"""
UPDATE audit_records AS former
   SET id = change.displaced_id
  FROM {recordset(AuditedChange, "change")}
 CROSS JOIN LATERAL (SELECT known.id FROM audit_records AS known WHERE known.id = change.id OFFSET 0) AS found
 WHERE former.id = found.id
"""

AUDIT_RECORDS = upsert(
    audit_records,
    AuditRecord,
    kept=[field.name for field in fields(AuditRecord) if field.name not in {"state", "message"}],
    stamps={"updated_at": "now()"},
)

# A resource without a row was there before if there is a record of its deletion: a uid never returns by itself.
AUDIT_RESTORED = f"""
UPDATE audit_records AS o
   SET actor = '{RESTORED_ACTOR}'
  FROM {recordset(AuditedChange, "change")}
 CROSS JOIN LATERAL (SELECT known.id FROM audit_records AS known
                      WHERE known.id = change.id
                        AND (SELECT true FROM audit_records AS deletion WHERE deletion.id = change.deletion_id)
                     OFFSET 0) AS restored
 WHERE o.id = restored.id
"""

# Looked up one by one (OFFSET 0 is a fence to the optimizer): without statistics it believes that hardly any row is
# open, and reads all of them to find those few.
AUDIT_OUTCOMES = f"""
UPDATE audit_records AS o
   SET state = moved.state, message = moved.message, updated_at = moved.updated_at
  FROM {recordset(AuditOutcome, "moved")}
 CROSS JOIN LATERAL (SELECT known.id FROM audit_records AS known
                      WHERE known.id = moved.id AND known.state IN ('Waiting', 'Failed')
                     OFFSET 0) AS open
 WHERE o.id = open.id
"""

FLEET_ORDERS = f"""
INSERT INTO fleet_orders ({names(FleetOrderRecord)}) SELECT * FROM {recordset(FleetOrderRecord, "decided")}
"""
