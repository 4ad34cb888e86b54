"""Bindings that lack a GitOpsDeployment because an object of somebody else has its name. Their rows store that.

The problem that a binding shows does not, because it is only the first of possibly several.
"""

from __future__ import annotations

from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.remembered import remembered, with_remembered

NAME_CONFLICT = "nameConflict"


def has_name_conflict(row: PlainResource) -> bool:
    """Whether it is such a binding."""
    return row.kind == BINDING.kind and row.present and remembered(row, NAME_CONFLICT) is not None


def with_name_conflict(row: PlainResource, *, is_conflicting: bool) -> PlainResource:
    """The row that stores it."""
    return with_remembered(row, NAME_CONFLICT, is_conflicting or None)
