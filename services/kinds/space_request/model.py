"""What is read of a SpaceRequest."""

from __future__ import annotations

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_model import ApiModel, ForeignCondition

SPACE_REQUEST = ApiResource("toolchain.dev.openshift.com", "v1alpha1", "SpaceRequest", "spacerequests")

CLAIM_LABEL = "appstudio.openshift.io/dtc"
TARGET_LABEL = "appstudio.openshift.io/dt"
"""Its labels: the claim that it was made for, and the target that was made of it."""


class NamespaceAccess(ApiModel):
    """A namespace that was made, and the Secret that opens it."""

    name: str = Field(default="", description="Name of the namespace.")
    secret_ref: str = Field(default="", description="Name of the Secret.")


class SpaceRequestStatus(ApiModel):
    """What its controller says."""

    target_cluster_url: str = Field(default="", alias="targetClusterURL", description="Of the API server.")
    namespace_access: list[NamespaceAccess] | None = Field(default=None, description="What was made.")
    conditions: list[ForeignCondition] | None = Field(default=None, description="Ready, or why it is not.")
