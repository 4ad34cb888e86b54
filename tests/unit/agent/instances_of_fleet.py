"""Rows of a fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from services.agent.objects.fleet import Fleet
from services.common.messages import FleetInstance

HERE, ELSEWHERE = "default", "other"
"""Engine clusters: the agent's own, and one that is another's."""


def instance_row(name: str, **changes: Any) -> FleetInstance:
    """An instance of the agent's cluster, in a namespace of its own name unless told otherwise."""
    row = FleetInstance(
        id=name,
        engine="argocd",
        engine_cluster=HERE,
        namespace=name,
        region="",
        engine_class="shared",
        dedicated_to="",
        ring="general",
        capacity=2500,
        state="accepting",
        deleted=False,
    )
    return replace(row, **changes)


def fleet_of(*names: str) -> Fleet:
    """Instances of the agent's cluster."""
    return Fleet(HERE, map(instance_row, names))
