"""What operators have assigned: workspaces to a region and a ring, tenants to an instance. Pure.

Only operators' orders set these (``assignment_orders.py``). Nothing that a tenant may write decides where it is placed:
no field of a resource, no label or annotation of its namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple, Protocol

from services.planner.rows.tenants import TenantName


@dataclass(frozen=True, slots=True)
class WorkspaceAssignment:
    """A row of ``workspace_assignments``: which instances tenants of a workspace are placed on."""

    workspace: str
    region: str
    """Empty: any."""
    ring: str
    """Empty: any."""
    assigned_at: datetime


@dataclass(frozen=True, slots=True)
class TenantPin:
    """A row of ``tenant_pins``: the instance that a tenant is placed on and stays on. The tenant may not exist yet."""

    workspace: str
    namespace: str
    engine_instance_id: str
    pinned_at: datetime

    @property
    def tenant(self) -> TenantName:
        """Name of the tenant that is pinned."""
        return (self.workspace, self.namespace)


class PinKey(NamedTuple):
    """Primary key of ``tenant_pins``."""

    workspace: str
    namespace: str


class Located(Protocol):
    """The fields of an instance that an affinity needs."""

    @property
    def id(self) -> str:
        """Id of the instance."""

    @property
    def engine_cluster(self) -> str:
        """Id of the engine cluster that it runs in."""

    @property
    def region(self) -> str:
        """Where its engine cluster is; empty: that has no region."""

    @property
    def ring(self) -> str:
        """One of ``RINGS``, which a new version comes to one after the other."""

    @property
    def dedicated_to(self) -> str:
        """The workspace that has it to itself; empty: none."""


@dataclass(frozen=True, slots=True, order=True)
class Affinity:
    """Which instances may have a tenant."""

    workspace: str
    region: str | None = None
    """None: any; empty: those of clusters without a region."""
    ring: str = ""
    """Empty: any."""
    engine_cluster: str = ""
    """Empty: any."""
    has_own: bool = False
    """Whether the workspace has some of these instances to itself: no shared one may have the tenant then."""

    def among(self, instances: Iterable[Located]) -> Affinity:
        """The affinity with :attr:`has_own` derived from ``instances``, which are all that are not retired.

        An instance that is not ready yet counts: tenants wait for it, and are not placed on a shared one meanwhile.
        """
        return replace(self, has_own=any(each.dedicated_to and self.admits(each) for each in instances))

    def admits(self, instance: Located) -> bool:
        """Whether the instance may have the tenant, whatever its state."""
        return not self.refusal(instance)

    def refusal(self, instance: Located) -> str:
        """Why the instance may not have the tenant, in words for operators; empty if it may."""
        if instance.dedicated_to not in {"", self.workspace}:
            return f"engine instance {instance.id} is dedicated to workspace {instance.dedicated_to}"
        if self.has_own and not instance.dedicated_to:
            return f"engine instance {instance.id} is shared, and workspace {self.workspace} has one to itself"
        if self.region not in {None, instance.region}:
            return f"region of engine instance {instance.id} is '{instance.region}', not '{self.region}'"
        if self.ring not in {"", instance.ring}:
            return f"ring of engine instance {instance.id} is '{instance.ring}', not '{self.ring}'"
        if self.engine_cluster not in {"", instance.engine_cluster}:
            return f"engine instance {instance.id} is in cluster {instance.engine_cluster}, not {self.engine_cluster}"
        return ""

    def __str__(self) -> str:
        """Which instances are meant, in words for operators."""
        limits = {"region": self.region, "ring": self.ring, "engine cluster": self.engine_cluster}
        named = [f"{what} '{value}'" for what, value in limits.items() if value]
        return " and ".join(named) or "any region and ring"


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """Assignments and pins."""

    assignments: Mapping[str, WorkspaceAssignment] = field(default_factory=dict)
    """By workspace."""
    pins: Mapping[TenantName, TenantPin] = field(default_factory=dict)
    """By the tenants' names."""

    def affinity(self, workspace: str, region: str | None = None, engine_cluster: str = "") -> Affinity:
        """Which instances may have a tenant of ``workspace``, by its assignment.

        Args:
            workspace: its name.
            region: in which the tenant stays if the workspace is assigned to no region; None: any.
            engine_cluster: in which the tenant stays; empty: any.
        """
        assigned = self.assignments.get(workspace)
        if assigned is None:
            return Affinity(workspace, region, engine_cluster=engine_cluster)
        return Affinity(workspace, assigned.region or region, assigned.ring, engine_cluster)

    def pinned_to(self, tenant: TenantName) -> str:
        """The instance that the tenant is pinned to; empty if it is not."""
        pin = self.pins.get(tenant)
        return pin.engine_instance_id if pin is not None else ""

    def with_read(self, tenants: Collection[TenantName], read: PlacementRules) -> PlacementRules:
        """The rules with those of ``tenants`` and their workspaces replaced by ``read``, which is newer.

        Returns the same object if nothing has changed, which is the usual case: all rules were read seconds ago.
        """
        workspaces = {workspace for workspace, _ in tenants}
        is_assigned_so = all(self.assignments.get(each) == read.assignments.get(each) for each in workspaces)
        if is_assigned_so and all(self.pins.get(each) == read.pins.get(each) for each in tenants):
            return self
        assignments = {each: row for each, row in self.assignments.items() if each not in workspaces}
        pins = {each: row for each, row in self.pins.items() if each not in tenants}
        return PlacementRules({**assignments, **read.assignments}, {**pins, **read.pins})

    def with_assignment(self, row: WorkspaceAssignment) -> PlacementRules:
        """With this row in place of the one of its workspace."""
        return PlacementRules({**self.assignments, row.workspace: row}, self.pins)

    def without_assignment(self, workspace: str) -> PlacementRules:
        """Without the one of this workspace."""
        return PlacementRules({each: row for each, row in self.assignments.items() if each != workspace}, self.pins)

    def with_pin(self, row: TenantPin) -> PlacementRules:
        """With this row in place of the one of its tenant."""
        return PlacementRules(self.assignments, {**self.pins, row.tenant: row})

    def without_pin(self, tenant: TenantName) -> PlacementRules:
        """Without the one of this tenant."""
        return PlacementRules(self.assignments, {each: row for each, row in self.pins.items() if each != tenant})
