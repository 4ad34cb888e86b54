"""The database, as SQLAlchemy Core tables: what the migrations must have made of it.

Only the planner writes here. A file holds the tables of one owner of data:

- ``fleet``: engine clusters, instances and pools, and where tenants are placed;
- ``instance_reports``: what agents and provisioners report of instances;
- ``fleet_progress``: moves, rollouts and remediations;
- ``tenants``: tenants with their resources;
- ``compiled``: what is made of tenants for other services;
- ``audit``: who changed what;
- ``consumption``: offsets, sweeps and parked tenants;
- ``rebuild``: what a rebuild needs until it is over;
- ``publication``: which tables are streamed to others.

Whoever imports one of them imports all, so ``METADATA`` (in ``metadata``) always is the whole schema. A test holds it
and the migrations together. ``columns.py`` makes the planner's writes from the tables, one statement per table, its
rows as one JSON text; a component test has PostgreSQL prepare every one.
"""

from services.planner.database.tables import (
    audit,
    compiled,
    consumption,
    fleet,
    fleet_progress,
    instance_reports,
    publication,
    rebuild,
    tenants,
)

__all__ = [
    "audit",
    "compiled",
    "consumption",
    "fleet",
    "fleet_progress",
    "instance_reports",
    "publication",
    "rebuild",
    "tenants",
]
