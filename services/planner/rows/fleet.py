"""Engine instances as plans of tenants see them."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ENGINE = "argocd"
"""Of an instance that is added without saying what it runs."""


@dataclass(frozen=True, slots=True)
class PlacementCandidate:
    """An engine instance."""

    id: str
    namespace: str
    accepting: bool
    engine: str
    """Which engine it runs."""
    dedicated_to: str = ""
    """The workspace whose tenants alone are placed on it; empty: any."""
    capacity: int = 1
    """Applications; to placement, what it counts among the others."""
    leaving: bool = False
    """No tenant stays on it."""
    engine_cluster: str = ""
    """The cluster that it runs in, and that deployments without an environment go to."""
    is_down: bool = False
    """Nothing new is deployed there, as far as anybody knows."""
    is_out_of_reach: bool = False
    """No agent can do anything there, likewise."""
    region: str = ""
    """Its engine cluster's."""
    ring: str = ""
    """When it gets a new version."""
    unready: bool = False
    """It has never been ready for tenants: not even one for which there is no other is placed on it."""
    retired: bool = False
    """It is given up, but rows name it still: nothing comes to it any more."""
    drained: bool = False
    """It is leaving, and no tenant is left on it."""
