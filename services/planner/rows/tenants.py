"""Tenants, their names, and the names of their resources."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of a workspace."""

    id: UUID
    workspace: str
    namespace: str
    partition: int
    engine_instance_id: str
    """Empty: not placed yet."""
    dormant: bool = False
    """There may be rows of it that are not loaded with it: nothing follows from them."""
    namespace_uid: str = ""
    """Which namespace of that name it is; empty: no watcher has reported it."""
    namespace_created_at: int = 0
    """Milliseconds since 1970."""
    former_since: int = 0
    """When the namespace was made that has its name now, likewise; 0: it is the current tenant of its name."""

    @property
    def is_former(self) -> bool:
        """Whether its namespace was made again: nothing of it exists any more, and what engines hold of it goes."""
        return bool(self.former_since)

    @property
    def full_name(self) -> TenantName:
        """Which it shares with those that had its name before."""
        return (self.workspace, self.namespace)


TenantName = tuple[str, str]
"""Workspace and namespace."""
PART = "@"
"""In the name of a part of a tenant, between namespace and instance: no namespace has it in its name."""


def tenant_of_part(name: TenantName) -> TenantName:
    """Whose part has this name; the very same if it is a tenant's."""
    workspace, namespace = name
    return (workspace, namespace.partition(PART)[0])


ResourceName = tuple[str, str]
"""Kind and name of a custom resource or a Secret: what one incarnation of it has at a time."""
