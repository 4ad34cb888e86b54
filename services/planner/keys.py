"""What a batch of events is about, as keys to look up. Called by ``load``; pure.

Ids are computed, so that no statement waits for another's answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from services.common.argocd_names import uid_of
from services.common.messages import (
    Checked,
    Command,
    Failed,
    Observation,
    Removed,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    SyncMoved,
)
from services.common.messages.compiled import RowKind
from services.planner import ids
from services.planner.events import Due, Event
from services.planner.kinds.names import GITOPS_DEPLOYMENT, SYNC_RUN, refers_to
from services.planner.rows import SweepScope


@dataclass
class Keys:
    """See the module."""

    tenants: set[UUID] = field(default_factory=set)
    deployments: set[UUID] = field(default_factory=set)
    names: set[tuple[UUID, str]] = field(default_factory=set)
    """Tenants and names of deployments, of whatever incarnation."""
    whole_tenants: set[UUID] = field(default_factory=set)
    """All of whose deployments are concerned: their AppProject was refused."""
    resources: set[UUID] = field(default_factory=set)
    resource_names: set[tuple[UUID, str, str]] = field(default_factory=set)
    """Tenants, kinds and names of resources, of whatever incarnation."""
    unsettled: set[UUID] = field(default_factory=set)
    """Tenants of which an environment, a credential or a Secret is concerned: their recipes are made again."""
    reviewed: set[UUID] = field(default_factory=set)
    """Tenants of which it may have changed whether environments can be used."""
    crowded: set[UUID] = field(default_factory=set)
    """Tenants in which a resource may have left room for others."""
    sweeps: set[SweepScope] = field(default_factory=set)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Keys:
        """The keys that ``events`` name."""
        keys = cls()
        for event in events:
            keys._add(event)
        return keys

    def add_unseen(self, kind: str, resource: UUID, tenant: UUID) -> None:
        """A resync did not show this one."""
        self.tenants.add(tenant)
        if kind == GITOPS_DEPLOYMENT:
            self.deployments.add(resource)
        else:
            self.resources.add(resource)
            (self.crowded if kind == SYNC_RUN else self.unsettled).add(tenant)

    def _add(self, event: Event) -> None:
        match event.message:
            case Command(event=ResyncCompleted() as marker) as command:
                self.sweeps.add(SweepScope(command.source, marker.kind, event.partition, marker.epoch))
            case Command(event=ResourceChanged() | ResourceGone() as state) as command:
                self._add_cr(command, state)
            case Observation() as observation:
                self._add_observation(observation)
            case Due() as due:
                self.tenants.add(ids.tenant_id(due.workspace, due.namespace))
                self.deployments.add(due.id)
                self.resources.add(due.id)

    def _add_cr(self, command: Command, state: ResourceChanged | ResourceGone) -> None:
        tenant = ids.tenant_id(command.workspace, command.namespace)
        own = ids.resource_id(command.workspace, state.uid)
        self.tenants.add(tenant)
        if state.kind == GITOPS_DEPLOYMENT:
            self.deployments.add(own)
            self.names.add((tenant, state.name))
            return
        self.resources.add(own)
        self.resource_names.add((tenant, state.kind, state.name))
        if state.kind != SYNC_RUN:
            self.unsettled.add(tenant)
            return
        self.crowded.add(tenant)
        if isinstance(state, ResourceChanged):
            self.names.add((tenant, refers_to(state.kind, state.spec)))

    def _add_observation(self, observation: Observation) -> None:
        tenant = ids.tenant_id(observation.workspace, observation.namespace)
        self.tenants.add(tenant)
        match observation:
            case Observation(kind=RowKind.APP_PROJECT):
                if isinstance(observation.event, Failed):
                    self.whole_tenants.add(tenant)
            case Observation(kind=RowKind.APPLICATION):
                uid = uid_of(observation.name)
                if uid:
                    self.deployments.add(ids.resource_id(observation.workspace, uid))
            case Observation(event=SyncMoved() as moved):
                self.resources.add(ids.resource_id(observation.workspace, moved.run))
            case Observation(event=Removed()) | Observation(event=Checked()):
                self.unsettled.add(tenant)  # it may have left room for others, and another spec may be in force now
                self.reviewed.add(tenant)
            case _:
                self.reviewed.add(tenant)
