"""Bindings that want more GitOpsDeployments than there is room for. Their rows store how many are lacking."""

from __future__ import annotations

from services.kinds.shared.reconciled import Problem
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.catalogue import COMPONENTS_OVER_QUOTA
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.remembered import remembered, with_remembered

WAITING = "componentsWaiting"


def is_waiting(row: PlainResource) -> bool:
    """Whether it is such a binding."""
    return row.kind == BINDING.kind and row.present and remembered(row, WAITING) is not None


def with_waiting(row: PlainResource, count: int) -> PlainResource:
    """The row with this count."""
    return with_remembered(row, WAITING, count or None)


def waiting_problem(count: int, wanted: int, most: int) -> Problem:
    """What a binding says while it lacks ``count`` of those that it wants.

    Args:
        count: how many it lacks.
        wanted: how many it wants.
        most: how many all bindings of the namespace may have.
    """
    return Problem.of(COMPONENTS_OVER_QUOTA, waiting=count, wanted=wanted, most=most)
