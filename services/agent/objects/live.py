"""Live objects: the parts of an API server's object that decisions need. Pure."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from services.agent.objects.desired import owned_spec
from services.agent.objects.kinds import SECRET_KIND, ManagedKind
from services.agent.objects.live_operation import NO_OPERATION, LiveOperation, live_operation
from services.agent.objects.visible_status import visible_status
from services.common.kubernetes import Manifest

_FINGERPRINT_KEY = os.urandom(32)
"""Random for each process: a fingerprint means nothing elsewhere."""


@dataclass(frozen=True, slots=True)
class LiveObject:
    """What is kept of an object that exists: the parts that decisions need, not the whole."""

    uid: str
    version: int
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: tuple[str, ...]
    deletion_started: datetime | None
    owned: Manifest
    """Only the part that is ours, see :func:`owned_part`."""
    status: str
    """The part of the status that users see, as canonical JSON; empty if there is none."""
    operation: LiveOperation
    """Of an Application."""


def live_object(kind: ManagedKind, manifest: Manifest) -> LiveObject:
    """What is kept of ``manifest``."""
    meta = manifest["metadata"]
    started = meta.get("deletionTimestamp")
    return LiveObject(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        finalizers=tuple(meta.get("finalizers") or ()),
        deletion_started=datetime.fromisoformat(started) if started else None,
        owned=owned_part(kind, manifest),
        status=visible_status(manifest.get("status") or {}) if kind.reports_status else "",
        operation=live_operation(manifest) if kind.reports_status else NO_OPERATION,
    )


def owned_part(kind: ManagedKind, manifest: Manifest) -> Manifest:
    """The part of an object that is compared; of a Secret it holds fingerprints in place of values."""
    if kind is not SECRET_KIND:
        return {"spec": owned_spec(kind, manifest.get("spec") or {})}
    data = {name: fingerprint(value) for name, value in (manifest.get("data") or {}).items()}
    fixed = {name: manifest[name] for name in kind.unchangeable if manifest.get(name)}
    return fixed | {"data": data}


def fingerprint(value: Any) -> str:
    """Of a JSON value: equal for equal values within this process."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, key=_FINGERPRINT_KEY, digest_size=16).hexdigest()
