"""Bindings that lack a GitOpsDeployment because an object of somebody else has its name: remembered in their rows.

What is told of a binding does not say so: it is its first problem, and this may not be the only one.
"""

from __future__ import annotations

from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.remembered import remembered, with_remembered

NAME_CONFLICT = "nameConflict"


def has_name_conflict(row: PlainResource) -> bool:
    """Whether it is a binding that lacks any."""
    return row.kind == BINDING.kind and row.present and remembered(row, NAME_CONFLICT) is not None


def with_name_conflict(row: PlainResource, *, is_conflicting: bool) -> PlainResource:
    """The row that keeps this."""
    return with_remembered(row, NAME_CONFLICT, is_conflicting or None)
