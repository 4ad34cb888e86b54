"""DeploymentTargetClass: who makes targets of this class, and what becomes of them after their claim."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import ApiModel, cel, rule
from services.kinds.shared.text import MAX_DISPLAY_TEXT, MAX_LABEL, MAX_NAME

DEPLOYMENT_TARGET_CLASS = ApiResource(APPSTUDIO_GROUP, VERSION, "DeploymentTargetClass", "deploymenttargetclasses")

DEVSANDBOX = "appstudio.redhat.com/devsandbox"
"""The provisioner of this service itself: a namespace that the developer sandbox makes."""
MAX_PARAMETERS = 32
PARAMETER_MESSAGE = f"the name of a parameter may have at most {MAX_LABEL} characters; choose a shorter one"


class DeploymentTargetClassSpec(ApiModel):
    """How targets come and go."""

    provisioner: str = Field(
        max_length=MAX_NAME, description=f"Who makes targets: {DEVSANDBOX}, or the name of a service of your own."
    )
    parameters: dict[str, Annotated[str, Field(max_length=MAX_DISPLAY_TEXT)]] | None = Field(
        default=None,
        max_length=MAX_PARAMETERS,
        description="For the provisioner.",
        json_schema_extra=cel(rule(f"self.all(name, name.size() <= {MAX_LABEL})", PARAMETER_MESSAGE)),
    )
    reclaim_policy: Literal["Delete", "Retain"] = Field(
        description="Delete: a target goes with its claim. Retain: it stays, and is Released; whoever deletes it also "
        "deletes the SpaceRequest that it was made of, which counts for the namespace's quota until then."
    )
