"""Writes moves, rollouts and remediations. Two planners may write the same row: each writes columns of its own."""

from __future__ import annotations

from dataclasses import fields

from services.planner.database.columns import recordset, upsert
from services.planner.database.tables.fleet_progress import moves, remediations, rollouts
from services.planner.domain.fleet.remediation.remediation_rows import Remediation, RemedyReport
from services.planner.domain.fleet.rollouts.rollout_rows import Rollout
from services.planner.domain.fleet.rows import Move

# Rows of moves that there are were locked when this was decided: what the tenants' planners write of them stays.
DECIDED_ON_THE_FLEET = {"step", "step_since", "is_cancelled", "message", "due_at", "path", "evacuated_for"}

MOVES_ORDERED = upsert(
    moves,
    Move,
    kept=[field.name for field in fields(Move) if field.name not in DECIDED_ON_THE_FLEET],
)

# What another planner has written meanwhile stays: of an order to cancel, the step that cannot be taken back is not
# taken; a move whose source is evacuated is looked at again when that planner wants it; one that is over stays so.
# In the order in which that planner locks them, as a rule: where PostgreSQL joins in another way it may end one of the
# two, which tries again.
IS_FORCED_MEANWHILE = "known.path = 'forced' AND moved.path = 'whole'"

MOVES = f"""
UPDATE moves AS known
   SET step = moved.step, is_cancelled = known.is_cancelled OR moved.is_cancelled, reported = moved.reported,
       message = CASE WHEN moved.message = '' THEN known.message ELSE moved.message END, step_since = moved.step_since,
       due_at = CASE WHEN {IS_FORCED_MEANWHILE} THEN known.due_at ELSE moved.due_at END,
       path = CASE WHEN {IS_FORCED_MEANWHILE} THEN known.path ELSE moved.path END
  FROM (SELECT * FROM {recordset(Move, "moved")} ORDER BY id) AS moved
 WHERE known.id = moved.id
   AND NOT (moved.step IN ('releasing', 'adopting') AND known.step NOT IN ('releasing', 'adopting')
            AND known.is_cancelled)
   AND known.step NOT IN ('done', 'cancelled')
"""

ROLLOUTS = upsert(
    rollouts,
    Rollout,
    kept=["version", "profile", "rings", "soak_seconds", "is_security", "actor", "ordered_at"],
)

# Two planners meet at a row: the one that decides on the fleet, and the one that an agent's reports come to.
REMEDIATIONS = upsert(remediations, Remediation, kept=["told_number", "told_outcome", "told_message"])

REMEDY_REPORTS = f"""
UPDATE remediations AS known
   SET told_number = reported.number, told_outcome = reported.outcome, told_message = reported.message
  FROM {recordset(RemedyReport, "reported")}
 WHERE (known.engine_instance_id, known.number) = (reported.engine_instance_id, reported.number)
"""
