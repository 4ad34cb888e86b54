"""Identities, derived from names that the platform owns: the same input makes the same ids in any database."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from uuid import UUID

ROOT = UUID("8f0dbe3c-0d5d-5b0a-9d63-6d1c0a7a3f11")
"""Namespace of all ids. Changing it renames every object of every tenant."""


@lru_cache(maxsize=16384)
def tenant_id(workspace: str, namespace: str, namespace_uid: str = "") -> UUID:
    """Id of a tenant, made from its namespace's uid; from its names as long as no watcher has reported a uid."""
    of_names = _uuid5(ROOT, f"{workspace}/{namespace}")
    return _uuid5(of_names, namespace_uid) if namespace_uid else of_names


@lru_cache(maxsize=16384)
def resource_id(workspace: str, uid: str) -> UUID:
    """Id of one incarnation of a CR or a Secret."""
    return _uuid5(ROOT, f"{workspace}/{uid}")


@lru_cache(maxsize=16384)
def operation_id(resource: UUID, change: str) -> UUID:
    """Id of the audit row of one change (a generation, or the deletion) of a CR."""
    return _uuid5(resource, change)


def displaced_operation_id(operation: UUID, at: datetime) -> UUID:
    """Id of an audit row whose id a later change has. A restored API server counts generations anew."""
    return _uuid5(operation, f"until/{at.isoformat()}")


def _uuid5(namespace: UUID, name: str) -> UUID:
    """As ``uuid.uuid5``, which imports its hash at each call."""
    digest = hashlib.sha1(namespace.bytes + name.encode(), usedforsecurity=False).digest()
    return UUID(bytes=digest[:16], version=5)
