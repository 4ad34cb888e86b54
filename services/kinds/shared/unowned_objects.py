"""What a resource wants changed of an object that has no controller, and whether a live object says so already.

An object is patched as long as it does not say what is wanted of it, and bound to its uid: one that has its name later
is another one. One that is wanted without a uid is made, unless there is one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.common.json_values import canonical, dict_of, digest
from services.common.messages import MAX_MANIFEST, UnownedKind
from services.kinds.shared.child_objects import LiveChild


@dataclass(frozen=True, slots=True)
class UnownedObject:
    """What shall become of one."""

    kind: UnownedKind
    name: str
    uid: str = ""
    """Of the object that is patched or deleted; empty: it is to be made."""
    is_deleted: bool = False
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of one that is made the whole; else the fields that are ours. None: there is to be none."""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Likewise."""
    finalizers: Mapping[str, bool] = field(default_factory=dict)
    """Whether it shall have them."""
    manifest: str = field(init=False)
    """Canonical JSON of these four."""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        names = ("annotations", "finalizers", "labels", "spec")
        object.__setattr__(self, "manifest", canonical({name: {**getattr(self, name)} for name in names}))
        object.__setattr__(self, "digest", digest(self.manifest))

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return (self.kind.value, self.name)

    @property
    def is_oversized(self) -> bool:
        """Whether it must not be written: Kafka Connect or the API server would stop at it, for all tenants."""
        return len(self.manifest.encode()) > MAX_MANIFEST


def says(manifest: str, live: LiveChild) -> bool:
    """Whether ``live`` is as ``manifest`` wants it, as far as it is told."""
    wanted = {name: dict_of(part) for name, part in orjson.loads(manifest).items()}
    told = {"annotations": live.annotations, "labels": live.labels, "spec": live.spec_members}
    return all(part is None or _has(part, wanted[name]) for name, part in told.items()) and (
        live.finalizers is None or _has_finalizers(live, wanted["finalizers"])
    )


def _has(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """None is what there is none of."""
    return all(live.get(name) == value for name, value in wanted.items())


def _has_finalizers(live: LiveChild, wanted: Mapping[str, bool]) -> bool:
    """On what is being deleted nobody can put another one."""
    present = live.finalizers or frozenset()
    return all((name in present) == is_on for name, is_on in wanted.items() if not (is_on and live.deleting))
