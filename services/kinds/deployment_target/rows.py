"""What is known of a DeploymentTarget."""

from __future__ import annotations

from dataclasses import dataclass

from services.kinds.deployment_target.model import DeploymentTargetSpec

FINALIZER = "dt.appstudio.redhat.com/finalizer"
PROVISIONED_BY = "provisioner.appstudio.redhat.com/provisioned-by"
"""Annotation of a target that was made on demand: the provisioner."""

PENDING, AVAILABLE, BOUND, RELEASED, FAILED = "Pending", "Available", "Bound", "Released", "Failed"
"""Phases."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target, and the phase that was written last."""

    name: str
    spec: DeploymentTargetSpec
    phase: str = ""
    deleting: bool = False
    uid: str = ""

    @property
    def claim(self) -> str:
        """Name of the claim that has it, or for which it is kept; empty: of none."""
        return self.spec.claim_ref or ""

    @property
    def class_name(self) -> str:
        """Name of its class."""
        return self.spec.deployment_target_class_name
