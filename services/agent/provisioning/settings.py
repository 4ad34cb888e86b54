"""Settings of the provisioner. Read once, by its bootstrap."""

from __future__ import annotations

from pathlib import Path

from pydantic import DirectoryPath, Field

from services.common.kafka import DEFAULT_ENGINE_CLUSTER, ENGINE_CLUSTER_NAME, FLEET, observations_topic
from services.common.settings import ServiceSettings

GROUP = "gitops-provisioner"
"""What the names begin with by which provisioners come to the brokers."""


class ProvisionerSettings(ServiceSettings):
    """What a provisioner needs to know."""

    engine_cluster: str = Field(
        default=DEFAULT_ENGINE_CLUSTER,
        pattern=ENGINE_CLUSTER_NAME,
        description="Id of the engine cluster, as operators have added it: its instances are this provisioner's.",
    )
    kubeconfig: Path | None = Field(default=None, description="Engine cluster; the pod's service account if left out.")
    installations: DirectoryPath = Field(
        description="Folder of rendered manifests: VERSION.yaml of each version of Argo CD that there is, and "
        "VERSION-PROFILE.yaml of each configuration profile of it."
    )
    fleet_topic: str = Field(default=FLEET, description="Topic of engine instances; as in topics.yaml.")
    observations_topic: str = Field(
        default="", description="Topic of observations; gitops.observations.<ENGINE_CLUSTER> if left out."
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
        """The group that its reader of the fleet names; nothing is committed."""
        return f"{GROUP}-{self.engine_cluster}"

    @property
    def topic_of_reports(self) -> str:
        """The topic that this cluster's provisioner writes to, as its agents do."""
        return self.observations_topic or observations_topic(self.engine_cluster)
