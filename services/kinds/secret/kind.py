"""Registry entry of the Secrets that custom resources name."""

from __future__ import annotations

from services.common.api_resource import SECRET
from services.kinds.secret.rules import is_resealed
from services.kinds.shared.kind import Kind

# Not audited: a Secret has no generation. What its changes lead to is told by the resources that name it.
KIND = Kind(resource=SECRET, default_quota=200, is_repeat=is_resealed)
