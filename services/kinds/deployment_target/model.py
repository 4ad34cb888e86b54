"""DeploymentTarget: a namespace of a cluster that one claim can have."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition
from services.kinds.shared.cluster_credentials import ClusterCredentials
from services.kinds.shared.text import MAX_LABEL, MAX_NAME

DEPLOYMENT_TARGET = ApiResource(APPSTUDIO_GROUP, VERSION, "DeploymentTarget", "deploymenttargets")


class TargetCredentials(ClusterCredentials):
    """The cluster of the target."""

    default_namespace: str = Field(max_length=MAX_LABEL, description="Namespace there that is deployed to.")


class DeploymentTargetSpec(ApiModel):
    """What can be claimed."""

    deployment_target_class_name: str = Field(
        max_length=MAX_NAME, description="Name of its DeploymentTargetClass. Only claims of the same class get it."
    )
    kubernetes_credentials: TargetCredentials
    claim_ref: str | None = Field(
        default=None,
        max_length=MAX_NAME,
        description="Name of the DeploymentTargetClaim that has it, or for which it is kept.",
    )


class DeploymentTargetStatus(ApiModel):
    """Who has it."""

    phase: Literal["Pending", "Available", "Bound", "Released", "Failed"] | None = Field(
        default=None, description="Pending, Available, Bound, Released or Failed."
    )
    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)
