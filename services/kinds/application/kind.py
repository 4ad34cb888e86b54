"""Registry entry of Application."""

from __future__ import annotations

from services.common.api_resource import ApiResource
from services.kinds.shared.api_group import APPSTUDIO_GROUP, VERSION
from services.kinds.shared.kind import ForeignKind
from services.kinds.shared.projection import Projection

APPLICATION = ApiResource(APPSTUDIO_GROUP, VERSION, "Application", "applications")

KIND = ForeignKind(
    resource=APPLICATION,
    default_quota=100,
    purpose="what components, snapshots, bindings and promotions belong to: that it exists",
    projection=Projection(spec_members=frozenset()),
)
