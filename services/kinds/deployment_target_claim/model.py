"""DeploymentTargetClaim: asks for a target of a class, which is found, or made on demand."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import CONDITIONS, ApiModel, Condition, rule
from services.kinds.shared.text import MAX_NAME

DEPLOYMENT_TARGET_CLAIM = ApiResource(APPSTUDIO_GROUP, VERSION, "DeploymentTargetClaim", "deploymenttargetclaims")

MAX_CLAIM_NAME = 60
"""The target that is made for it is named ``<claim>-dt``, which has to fit into a label."""
NAME_MESSAGE = (
    f"the name of a DeploymentTargetClaim may have at most {MAX_CLAIM_NAME} characters, because labels carry it; "
    "choose a shorter name"
)
NAME_RULE = rule(f"oldSelf.hasValue() || self.metadata.name.size() <= {MAX_CLAIM_NAME}", NAME_MESSAGE) | {
    "optionalOldSelf": True
}


class DeploymentTargetClaimSpec(ApiModel):
    """What is asked for."""

    deployment_target_class_name: str = Field(
        max_length=MAX_NAME, description="Name of a DeploymentTargetClass: only targets of this class are given."
    )
    target_name: str | None = Field(
        default=None,
        max_length=MAX_NAME,
        description="Name of the DeploymentTarget that is wanted; if left out, the one that was found is written here.",
    )


class DeploymentTargetClaimStatus(ApiModel):
    """Whether there is a target."""

    phase: Literal["Pending", "Bound", "Lost"] | None = Field(default=None, description="Pending, Bound or Lost.")
    conditions: list[Condition] | None = Field(default=None, description=CONDITIONS)
