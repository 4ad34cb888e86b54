"""What a resource wants changed of an object that has no controller, and whether a live object says so already.

An object is patched as long as it does not say what is wanted of it, and bound to its uid: one that has its name later
is another one. One that is wanted without a uid is made, unless there is one of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.common.json_values import dict_of
from services.common.messages import UnownedKind
from services.kinds.shared.child_objects import LiveChild
from services.kinds.shared.desired_object import DesiredObject


@dataclass(frozen=True)
class UnownedObject(DesiredObject):
    """What shall become of one."""

    kind: UnownedKind
    uid: str = ""
    """Of the object that is patched or deleted; empty: it is to be made."""
    is_deleted: bool = False
    unless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names by kind, of one that is deleted: while there is any such object of its namespace it is not."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of one that is made the whole; else the fields that are ours. None: there is to be none."""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Likewise."""
    finalizers: Mapping[str, bool] = field(default_factory=dict)
    """Whether it shall have them."""

    @property
    def content(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of its manifest. One name is a text there: watchers of before know no several ones."""
        parts = {"annotations": self.annotations, "finalizers": self.finalizers, "labels": self.labels}
        unless = {kind: names[0] if len(names) == 1 else list(names) for kind, names in self.unless.items()}
        return parts | {"spec": self.spec} | ({"unless": unless} if unless else {})


def says(manifest: str, live: LiveChild) -> bool:
    """Whether ``live`` is as ``manifest`` wants it, as far as it is told. What is too long to be told says nothing."""
    wanted = {name: dict_of(part) for name, part in orjson.loads(manifest).items()}
    if live.is_omitted and any(wanted[name] for name in ("annotations", "finalizers", "labels")):
        return False
    known = {"annotations": live.annotations, "labels": live.labels, "spec": live.spec_members}
    return all(part is None or _has(part, wanted[name]) for name, part in known.items()) and (
        live.finalizers is None or _has_finalizers(live, wanted["finalizers"])
    )


def _has(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """None is what there is none of."""
    return all(live.get(name) == value for name, value in wanted.items())


def _has_finalizers(live: LiveChild, wanted: Mapping[str, bool]) -> bool:
    """On what is being deleted nobody can put another one."""
    present = live.finalizers or frozenset()
    return all((name in present) == is_on for name, is_on in wanted.items() if not (is_on and live.deleting))
