"""The part of an Application's status that users see. Pure.

Argo CD writes a status at every reconciliation (``reconciledAt``, timings). A change of what is left out here causes no
message. Only what a GitOpsDeployment shows is left in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_RESOURCE = ("group", "version", "kind", "namespace", "name", "status")
_ORDER = ("group", "kind", "namespace", "name")


def visible_status(status: Mapping[str, Any]) -> str:
    """The visible part of ``status`` as canonical JSON; empty if there is none."""
    parts = {
        "conditions": [_picked(item, ("type", "message")) for item in status.get("conditions") or ()],
        "health": _picked(status.get("health"), ("status", "message")),
        "sync": _sync(status.get("sync") or {}),
        "resources": sorted((_resource(item) for item in status.get("resources") or ()), key=_order),
        "operationState": status.get("operationState") or {},
    }
    visible = {name: part for name, part in parts.items() if part}
    return orjson.dumps(visible, option=orjson.OPT_SORT_KEYS).decode() if visible else ""


def is_out_of_sync(visible: str) -> bool:
    """Whether a visible status says that something has to be deployed."""
    return bool(visible) and orjson.loads(visible).get("sync", {}).get("status") == "OutOfSync"


def _sync(sync: Mapping[str, Any]) -> dict[str, Any]:
    compared = _picked(sync.get("comparedTo"), ("source", "destination"))
    return _picked(sync, ("status", "revision")) | ({"comparedTo": compared} if compared else {})


def _resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    health = _picked(resource.get("health"), ("status", "message"))
    return _picked(resource, _RESOURCE) | ({"health": health} if health else {})


def _order(resource: Mapping[str, Any]) -> tuple[str, ...]:
    """A sort key: Argo CD lists resources in no particular order, and another order is no change."""
    return tuple(str(resource.get(name, "")) for name in _ORDER)


def _picked(part: Mapping[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: part[name] for name in names if part.get(name) not in (None, "")} if part else {}
