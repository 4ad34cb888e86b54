"""Registry entry of the Secrets that custom resources name."""

from __future__ import annotations

from services.common.api_resource import SECRET
from services.kinds.secret.rules import is_resealed
from services.kinds.shared.kind import Kind
from services.kinds.shared.projection import Projection

# Not audited: a Secret has no generation. The resources that name it show what its changes lead to.
# Its owners are sent because a copy of ours has an owner: another Secret may have its name.
KIND = Kind(resource=SECRET, default_quota=200, is_repeat=is_resealed, projection=Projection(owner_references=True))
