"""Which bindings bind which application to which environment. The indexes are updated with each change of a row."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import orjson

from services.common.messages import ChildKind
from services.kinds.shared.resource import PlainResource, within_quota
from services.kinds.snapshot_environment_binding.known import known_binding
from services.kinds.snapshot_environment_binding.model import BINDING
from services.kinds.snapshot_environment_binding.rules import Rival, older_bindings, pair_of_labels
from services.planner.domain.ids import resource_id
from services.planner.domain.indexed_rows import Counts, Groups, Subset, index_of
from services.planner.domain.state import NO_ROWS, TenantState
from services.planner.rows.compiled import ChildRow

Pair = tuple[str, str]
"""Application and environment."""


def pair_of(row: PlainResource) -> Pair | None:
    """The pair of a binding, also if there is no room for the binding; None if its spec cannot be read."""
    known = known_binding(within_quota(row))
    return (known.application, known.environment) if known is not None else None


def bound_pair(state: TenantState, row: PlainResource) -> Pair | None:
    """The pair of a binding. If its spec cannot be read, the pair of what it has deployed, if anything."""
    return pair_of(row) or _deployed_pair(state, row)


def _deployed_pair(state: TenantState, row: PlainResource) -> Pair | None:
    """The pair by the labels of what the binding has deployed. The pair of a binding does not change."""
    children = state.child_objects_by_owner().get(row.uid, {}).values()
    return next((pair for each in children if (pair := _pair_of_child(each)) is not None), None)


def _pair_of_child(row: ChildRow) -> Pair | None:
    if row.kind != ChildKind.DEPLOYMENT or row.desired != "present":
        return None
    return pair_of_labels(orjson.loads(row.manifest)["labels"])


def _is_binding(row: PlainResource) -> bool:
    return row.kind == BINDING.kind and row.present


def _is_refused(row: PlainResource) -> bool:
    return _is_binding(row) and known_binding(row) is None


def _environment_of(row: PlainResource) -> str | None:
    pair = pair_of(row) if _is_binding(row) else None
    return pair[1] if pair is not None else None


BY_PAIR: Groups[PlainResource, Pair] = Groups(
    lambda row: pair_of(row) if _is_binding(row) and not _is_refused(row) else None
)
REFUSED: Subset[PlainResource] = Subset(_is_refused)
"""Bindings without room, or whose spec cannot be read. They are in no group of ``BY_PAIR``."""
BY_ENVIRONMENT: Counts[PlainResource, str] = Counts(_environment_of)
"""How many bindings each environment has, refused ones among them."""
DEPLOYED_OF_PAIR: Groups[ChildRow, Pair] = Groups(_pair_of_child)
"""The deployments that bindings of a pair have."""


def rivals(state: TenantState, pair: Pair) -> Mapping[UUID, PlainResource]:
    """The bindings of a pair, of which one is in force. It may have been refused since: what it deployed stays."""
    deployed = index_of(state.child_objects, DEPLOYED_OF_PAIR).get(pair, {}).values()
    owners = {resource_id(row.workspace, row.owner_uid) for row in deployed}
    holding = {each: row for each in owners if (row := state.plain_resources.get(each)) is not None and row.present}
    return {**index_of(state.plain_resources, BY_PAIR).get(pair, NO_ROWS), **holding}


def older_in_force(pair: Pair, rows: Mapping[UUID, PlainResource]) -> dict[UUID, str]:
    """For each of the ``rivals`` of a pair that is not in force, the name of the one that is."""
    return older_bindings(Rival(row.id, row.name, row.created_at, *pair) for row in rows.values())
