"""Registry entry of Component."""

from __future__ import annotations

from services.kinds.component.model import COMPONENT
from services.kinds.shared.kind import ForeignKind
from services.kinds.shared.projection import Projection

KIND = ForeignKind(
    resource=COMPONENT,
    default_quota=1000,
    purpose="a part of an application: its name, and of which application it is",
    projection=Projection(spec_members=frozenset({"application", "componentName"})),
)
