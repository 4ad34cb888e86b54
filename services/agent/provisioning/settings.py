"""Settings of the provisioner. The bootstrap reads them once."""

from __future__ import annotations

from pydantic import DirectoryPath, Field

from services.agent.settings import EngineClusterSettings

GROUP = "gitops-provisioner"
"""Prefix of the provisioners' group names."""


class ProvisionerSettings(EngineClusterSettings):
    """Settings of a provisioner."""

    installations: DirectoryPath = Field(
        description="Folder of rendered manifests: VERSION.yaml of each version of Argo CD that there is, and "
        "VERSION-PROFILE.yaml of each configuration profile of it."
    )
    provisioning_interval_seconds: float = Field(
        default=30, gt=0, description="Between two comparisons of an installation with its manifests."
    )
    provisioning_soak_seconds: float = Field(
        default=300,
        ge=120,
        description="How long instances work with manifests that have changed before the next ones get these. Whether "
        "they work is told within a minute or two: less would prove nothing.",
    )

    @property
    def consumer_group(self) -> str:
        """The group that its reader of the fleet names. Nothing is committed."""
        return f"{GROUP}-{self.engine_cluster}"
