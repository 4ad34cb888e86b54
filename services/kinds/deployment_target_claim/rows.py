"""The row of a DeploymentTargetClaim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.kinds.deployment_target_claim.model import DeploymentTargetClaimSpec

FINALIZER = "binder.appstudio.redhat.com/finalizer"
BIND_COMPLETE = "dt.appstudio.redhat.com/bind-complete"
"""Annotation of a claim that was bound once."""
BOUND_BY_CONTROLLER = "dt.appstudio.redhat.com/bound-by-controller"
"""Annotation of a claim whose target was found, not named."""
PROVISIONER = "provisioner.appstudio.redhat.com/dt-provisioner"
"""Annotation of a claim for which a target is to be made: its class."""
TRUE = "true"

PENDING, BOUND, LOST = "Pending", "Bound", "Lost"
"""Phases."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim."""

    name: str
    uid: str
    created_at: int
    """Milliseconds since 1970."""
    spec: DeploymentTargetClaimSpec
    annotations: Mapping[str, str] = field(default_factory=dict)
    given: str = ""
    """The target that the binder has given it. The claim shows it once the change is written."""
    deleting: bool = False
    has_finalizer: bool = False
    """Whether it is known to stay until what is made for it is being deleted."""

    @property
    def target(self) -> str:
        """Name of the target that it has or wants; empty: any that matches."""
        return self.given or self.spec.target_name or ""

    @property
    def class_name(self) -> str:
        """Name of its class; empty: none."""
        return self.spec.deployment_target_class_name

    @property
    def was_bound(self) -> bool:
        """Whether it once had a target. Then it gets no other one."""
        return bool(self.given) or BIND_COMPLETE in self.annotations
