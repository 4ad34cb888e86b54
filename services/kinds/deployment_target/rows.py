"""The row of a DeploymentTarget."""

from __future__ import annotations

from dataclasses import dataclass

from services.kinds.deployment_target.model import DeploymentTargetSpec

FINALIZER = "dt.appstudio.redhat.com/finalizer"
PROVISIONED_BY = "provisioner.appstudio.redhat.com/provisioned-by"
"""Annotation of a target that was made on demand: its provisioner."""
CLAIM_UID = "provisioner.appstudio.redhat.com/claim-uid"
"""Annotation of a target that was made for one claim: its uid. A later claim of the same name does not get it."""

PENDING, AVAILABLE, BOUND, RELEASED, FAILED = "Pending", "Available", "Bound", "Released", "Failed"
"""Phases."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target, and its last written phase."""

    name: str
    spec: DeploymentTargetSpec
    phase: str = ""
    deleting: bool = False
    uid: str = ""
    claim_uid: str = ""
    """Uid of the claim that it was made for; empty: unknown."""
    provisioned_by: str = ""
    """The provisioner that has made it on demand; empty: a user has made it."""

    @property
    def claim(self) -> str:
        """Name of the claim that has it, or that it is reserved for; empty: none."""
        return self.spec.claim_ref or ""

    @property
    def class_name(self) -> str:
        """Name of its class."""
        return self.spec.deployment_target_class_name
