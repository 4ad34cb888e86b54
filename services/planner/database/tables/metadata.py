"""The one ``METADATA`` of all tables, and what their columns have in common."""

from __future__ import annotations

from sqlalchemy import DateTime, MetaData, text

METADATA = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)

NOW = text("now()")
FALSE = text("false")
TIME = DateTime(timezone=True)
# Rows that are updated often leave room on their page: the new version stays there and no index is touched.
ROOM_FOR_UPDATES = {"fillfactor": "80"}
