"""An object that a resource wants in its own namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.common.api_resource import ApiResource
from services.kinds.shared.api_model import ApiModel


@dataclass(frozen=True, slots=True)
class Child:
    """An object of our own API. Who wants it is its owner and controller: it goes when that goes."""

    resource: ApiResource
    name: str
    spec: ApiModel
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those that we set. Others, which somebody else has set, stay."""
