"""Which bindings bind which application to which environment. What is derived of that follows each change of one."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.known import known_binding
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.rules import Rival, older_bindings
from services.planner.domain.indexed_rows import Counts, Groups

Pair = tuple[str, str]
"""Application and environment."""


def pair_of(row: PlainResource) -> Pair | None:
    """What a binding binds; None if its spec cannot be read, or there is no room for it."""
    known = known_binding(row)
    return (known.application, known.environment) if known is not None else None


def present_pair_of(row: PlainResource) -> Pair | None:
    """Likewise of any resource; None, too, if it is no binding that is there."""
    return pair_of(row) if row.kind == BINDING.kind and row.present else None


def _environment_of(row: PlainResource) -> str | None:
    pair = present_pair_of(row)
    return pair[1] if pair is not None else None


BY_PAIR: Groups[PlainResource, Pair] = Groups(present_pair_of)
BY_ENVIRONMENT: Counts[PlainResource, str] = Counts(_environment_of)
"""How many bindings there are of each environment."""


def older_in_force(pair: Pair, rows: Mapping[UUID, PlainResource]) -> dict[UUID, str]:
    """For each of all bindings of a pair that is not in force the name of the one that is."""
    return older_bindings(Rival(row.id, row.name, row.created_at, *pair) for row in rows.values())
