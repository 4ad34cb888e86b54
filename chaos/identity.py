"""Names of Argo CD's objects, by the rule in docs/design/tenants.md (Identity), written down anew."""

from __future__ import annotations

from uuid import UUID, uuid5

ROOT = UUID("8f0dbe3c-0d5d-5b0a-9d63-6d1c0a7a3f11")
"""Namespace of all ids; another one would rename every object of every tenant."""
WORKSPACE = "local"


def resource_id(uid: str) -> str:
    """Id of what was made for a resource with this uid."""
    return str(uuid5(ROOT, f"{WORKSPACE}/{uid}"))


def tenant_id(namespace: str, namespace_uid: str) -> str:
    """Id of who has a namespace, from its creation to its end."""
    return str(uuid5(uuid5(ROOT, f"{WORKSPACE}/{namespace}"), namespace_uid))
