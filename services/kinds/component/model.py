"""What is read of a Component."""

from __future__ import annotations

from pydantic import Field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.api_model import ApiModel
from services.kinds.shared.text import MAX_LABEL

COMPONENT = ApiResource(APPSTUDIO_GROUP, VERSION, "Component", "components")


class ComponentSpec(ApiModel):
    """Whose it is, and what the build service calls it."""

    application: str = Field(max_length=MAX_LABEL, description="Name of its Application.")
    component_name: str = Field(default="", max_length=MAX_LABEL, description="Its name in snapshots and bindings.")
