"""Identities, derived from names that the platform owns: the same input makes the same ids in any database."""

from __future__ import annotations

from uuid import UUID, uuid5

ROOT = UUID("8f0dbe3c-0d5d-5b0a-9d63-6d1c0a7a3f11")
"""Namespace of all ids. Changing it renames every object of every tenant."""


def tenant_id(workspace: str, namespace: str) -> UUID:
    """Id of a tenant."""
    return uuid5(ROOT, f"{workspace}/{namespace}")


def resource_id(workspace: str, uid: str) -> UUID:
    """Id of one incarnation of a CR or a Secret."""
    return uuid5(ROOT, f"{workspace}/{uid}")


def operation_id(resource: UUID, change: str) -> UUID:
    """Id of the audit row of one change (a generation, or the deletion) of a CR."""
    return uuid5(resource, change)
