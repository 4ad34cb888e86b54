"""The list of all kinds.

Everything that depends on a kind is derived from it, so a kind that is added here is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from services.kinds.application.kind import KIND as APPLICATION
from services.kinds.component.kind import KIND as COMPONENT
from services.kinds.deployment_target.kind import KIND as DEPLOYMENT_TARGET
from services.kinds.deployment_target_claim.kind import KIND as DEPLOYMENT_TARGET_CLAIM
from services.kinds.deployment_target_class.kind import KIND as DEPLOYMENT_TARGET_CLASS
from services.kinds.environment.kind import KIND as ENVIRONMENT
from services.kinds.gitops_deployment.kind import KIND as GITOPS_DEPLOYMENT
from services.kinds.managed_environment.kind import KIND as MANAGED_ENVIRONMENT
from services.kinds.promotion_run.kind import KIND as PROMOTION_RUN
from services.kinds.repository_credential.kind import KIND as REPOSITORY_CREDENTIAL
from services.kinds.secret.kind import KIND as SECRET
from services.kinds.shared.kind import CustomKind, DefinedKind, ForeignKind, Kind, OperatorKind
from services.kinds.shared.limits import DEFAULT_BYTES, DEFAULT_DESTINATIONS, Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot.kind import KIND as SNAPSHOT
from services.kinds.snapshot_environment_binding.kind import KIND as BINDING
from services.kinds.space_request.kind import KIND as SPACE_REQUEST
from services.kinds.sync_run.kind import KIND as SYNC_RUN


@dataclass(frozen=True)
class Registry:
    """Kinds, in the order in which the watcher follows them and the documentation lists them."""

    kinds: tuple[Kind, ...]
    """Followed kinds: the watcher sends their resources, the planner stores them."""
    looked_up: tuple[OperatorKind, ...] = ()
    """Kinds that resources of followed kinds name. Their content comes with each such resource."""

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Kind:
        return self._by_name[name]

    @cached_property
    def custom(self) -> tuple[CustomKind, ...]:
        """Followed kinds of our own API. Each has a CRD and a status."""
        return tuple(kind for kind in self.kinds if isinstance(kind, CustomKind))

    @cached_property
    def foreign(self) -> tuple[ForeignKind, ...]:
        """Followed kinds of other services."""
        return tuple(kind for kind in self.kinds if isinstance(kind, ForeignKind))

    @cached_property
    def defined(self) -> tuple[DefinedKind, ...]:
        """All kinds of our own API. Each has a CRD, a page and, if it has a namespace, rules in tenants' roles."""
        return (*self.custom, *self.looked_up)

    @cached_property
    def plain_kinds(self) -> tuple[Kind, ...]:
        """Kinds that the planner stores as a PlainResource. Generic steps serve all of them."""
        return tuple(kind for kind in self.kinds if kind.row is PlainResource)

    @cached_property
    def listing(self) -> tuple[Kind, ...]:
        """Kinds whose resources list namespaces of clusters that deployments may use."""
        return tuple(kind for kind in self.kinds if kind.destinations is not None)

    @cached_property
    def others_with_objects(self) -> tuple[Kind, ...]:
        """Other kinds whose resources become objects of an engine."""
        return tuple(kind for kind in self.plain_kinds if kind.connections is not None and kind.destinations is None)

    @cached_property
    def dormant(self) -> tuple[Kind, ...]:
        """Kinds whose resources are loaded only if others name them."""
        return tuple(kind for kind in self.kinds if kind.is_dormant)

    @cached_property
    def with_status(self) -> tuple[CustomKind, ...]:
        """Kinds of our own API with a status of ours."""
        return tuple(kind for kind in self.custom if kind.compile_status is not None or kind.row is not PlainResource)

    def naming(self, kind: Kind) -> tuple[Kind, ...]:
        """Kinds whose resources name resources of ``kind``."""
        return self._naming.get(kind.name, ())

    @cached_property
    def _naming(self) -> Mapping[str, tuple[Kind, ...]]:
        named = {kind.reference.to.kind for kind in self.kinds if kind.reference is not None}
        return {
            each: tuple(kind for kind in self.kinds if kind.reference is not None and kind.reference.to.kind == each)
            for each in named
        }

    @cached_property
    def secret_types(self) -> tuple[str, ...]:
        """Types of Secrets that are made for us."""
        references = (kind.reference for kind in self.kinds if kind.reference is not None)
        return tuple(reference.secret_type for reference in references if reference.secret_type)

    def limits(
        self,
        counts: Mapping[str, int] = MappingProxyType({}),
        *,
        destinations: int = DEFAULT_DESTINATIONS,
        bytes_: int = DEFAULT_BYTES,
    ) -> Limits:
        """A tenant's limits: ``counts`` by kind, and the defaults of other kinds."""
        return Limits(
            counts={kind.name: counts.get(kind.name, kind.default_quota) for kind in self.kinds},
            destinations=destinations,
            bytes=bytes_,
            listing=frozenset(kind.name for kind in self.listing),
            counted={kind.name: kind.counted for kind in self.kinds if kind.counted},
        )

    @cached_property
    def _by_name(self) -> Mapping[str, Kind]:
        return {kind.name: kind for kind in self.kinds}


REGISTRY = Registry(
    (
        GITOPS_DEPLOYMENT,
        MANAGED_ENVIRONMENT,
        REPOSITORY_CREDENTIAL,
        SYNC_RUN,
        SECRET,
        ENVIRONMENT,
        SNAPSHOT,
        BINDING,
        PROMOTION_RUN,
        APPLICATION,
        COMPONENT,
        SPACE_REQUEST,
        DEPLOYMENT_TARGET_CLAIM,
        DEPLOYMENT_TARGET,
    ),
    looked_up=(DEPLOYMENT_TARGET_CLASS,),
)
