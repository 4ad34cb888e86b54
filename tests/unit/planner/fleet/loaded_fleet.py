"""A fleet of which everything is loaded, for rules that read whatever they like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from services.planner.domain.fleet.fleet import Fleet, Holding
from services.planner.domain.fleet.loaded_parts import LoadedTenants, TenantHere
from services.planner.domain.fleet.placement.assignments import PlacementRules
from services.planner.domain.fleet.rows import EngineClusterRow, EngineInstanceRow, Move
from services.planner.rows.tenants import TenantName

NONE: Mapping[Any, Any] = MappingProxyType({})


def loaded_fleet(
    clusters: Mapping[str, EngineClusterRow],
    instances: Mapping[str, EngineInstanceRow],
    holdings: Mapping[str, Holding] = NONE,
    tenants: Mapping[TenantName, TenantHere] = NONE,
    moves: Mapping[UUID, Move] = NONE,
    **parts: Any,
) -> Fleet:
    """With all tenants; of each part that is not given there is nothing."""
    every = {"rules": PlacementRules(), "load": {}, "returned": {}, "evacuations": {}, **parts}
    found = LoadedTenants.of_all(tenants)
    return Fleet(clusters, instances, holdings, frozenset({"argocd"}), found, has_retired=True, moves=moves, **every)


def with_tenants(fleet: Fleet, tenants: Mapping[TenantName, TenantHere]) -> Fleet:
    """With these as all tenants."""
    return replace(fleet, tenants=LoadedTenants.of_all(tenants))
