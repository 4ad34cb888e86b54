"""A role of its own reads what operators are shown of the fleet, and writes nothing: orders go through Kafka.

compose/postgres/init.sql of this release makes it, and is run before. It reads no manifest, of tenants' resources no
content but deployments' (specs: which of them are there), and no answer to a user. Tables that come later are not its
own.
"""

from __future__ import annotations

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

ROLE = "gitops_reader"
TABLES = (
    "deployment_placements",
    "engine_clusters",
    "engine_health",
    "engine_installations",
    "engine_instances",
    "engine_overloads",
    "engine_pools",
    "engine_samples",
    "fleet_orders",
    "moves",
    "placements",
    "remediations",
    "rollouts",
    "tenant_pins",
    "tenants",
    "workspace_assignments",
)
PARTS = (
    "deployments (tenant_id, engine_instance_id, environment_id, spec)",
    "engine_resources (engine_instance_id, kind, lane, desired, owner_kind)",
    "resources (id, name)",
)
"""Of the other tables, what is counted or named."""
VIEW = "past_remedies"
MAKE_VIEW = """
CREATE VIEW past_remedies WITH (security_barrier) AS
SELECT created_at, generation, name AS engine_instance_id, message FROM audit_records WHERE kind = 'Remediation'
"""
"""Of the audit, what planners did for engine instances: the rest tells of tenants, and what they were answered."""


def upgrade() -> None:
    op.execute(f"GRANT USAGE ON SCHEMA public TO {ROLE}")
    op.execute(f"GRANT SELECT ON {', '.join(TABLES)} TO {ROLE}")
    for part in PARTS:
        table, columns = part.split(" ", 1)
        op.execute(f"GRANT SELECT {columns} ON {table} TO {ROLE}")
    op.execute(MAKE_VIEW)
    op.execute(f"GRANT SELECT ON {VIEW} TO {ROLE}")


def downgrade() -> None:
    op.execute(f"DROP VIEW {VIEW}")
    parts = (part.partition(" ")[0] for part in PARTS)
    op.execute(f"REVOKE ALL ON {', '.join((*TABLES, *parts))} FROM {ROLE}")
    op.execute(f"REVOKE USAGE ON SCHEMA public FROM {ROLE}")
