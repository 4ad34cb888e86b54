"""Registry entry of SpaceRequest."""

from __future__ import annotations

from services.kinds.deployment_target_claim.rows import PROVISIONER
from services.kinds.shared.kind import ForeignKind
from services.kinds.shared.projection import Projection
from services.kinds.space_request.model import CLAIM_LABEL, SPACE_REQUEST, TARGET_LABEL

KIND = ForeignKind(
    resource=SPACE_REQUEST,
    default_quota=100,
    purpose="asks for a namespace: whether it is ready, and how it is reached",
    projection=Projection(
        spec_members=frozenset({"tierName"}),
        labels=frozenset({CLAIM_LABEL, TARGET_LABEL}).__contains__,
        annotations=frozenset({PROVISIONER}),
        status_members=frozenset({"conditions", "namespaceAccess", "targetClusterURL"}),
    ),
)
