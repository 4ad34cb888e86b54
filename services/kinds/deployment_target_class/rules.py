"""How resources name a class, and what the watcher has sent of it."""

from __future__ import annotations

from typing import NamedTuple

from services.common.errors import Permanent
from services.common.json_values import canonical, dict_of, text_of
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS, DeploymentTargetClassSpec
from services.kinds.shared.conditions import parsed_status
from services.kinds.shared.incarnation import version_order
from services.kinds.shared.kind import Reference
from services.kinds.shared.spec_text import parsed

CLASS_REFERENCE = Reference("deploymentTargetClassName", DEPLOYMENT_TARGET_CLASS)
"""Of claims and targets."""


class NamedClass(NamedTuple):
    """A class as sent with a resource."""

    version: int
    spec: DeploymentTargetClassSpec


def named_class(text: str) -> NamedClass | None:
    """The class in ``PlainResource.named_class``; None if there is none, or it is invalid."""
    content = parsed_status(text)
    try:
        spec = parsed(DeploymentTargetClassSpec, canonical(dict_of(content.get("spec"))))
    except Permanent:
        return None
    return NamedClass(version_order(text_of(content.get("version"))), spec)
