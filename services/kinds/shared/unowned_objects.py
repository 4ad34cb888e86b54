"""A change of an object without a controller that a resource wants, and whether the live object has it already.

An object is patched until it has the desired values. The patch is bound to its uid, so a later object of its name is
not changed. A change without a uid creates the object, unless an object has its name.
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
    """The desired change of one object."""

    kind: UnownedKind
    uid: str = ""
    """Uid of the object to patch or delete; empty: create it."""
    is_deleted: bool = False
    unless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a deletion, names by kind: the object is not deleted while any of these objects exists."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """For a creation the whole spec; otherwise the fields to change. None: the field is removed."""
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """Annotations to set; None: the annotation is removed."""
    finalizers: Mapping[str, bool] = field(default_factory=dict)
    """Whether each finalizer should be on the object."""

    @property
    def content(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of its manifest. A single name is a text, because older watchers do not know lists of names."""
        parts = {"annotations": self.annotations, "finalizers": self.finalizers, "labels": self.labels}
        unless = {kind: names[0] if len(names) == 1 else list(names) for kind, names in self.unless.items()}
        return parts | {"spec": self.spec} | ({"unless": unless} if unless else {})


def says(manifest: str, live: LiveChild) -> bool:
    """Whether ``live`` is as ``manifest`` wants, as far as ``live`` is known.

    Metadata that was left out as too long is unknown.
    """
    wanted = {name: dict_of(part) for name, part in orjson.loads(manifest).items()}
    if live.is_omitted and any(wanted[name] for name in ("annotations", "finalizers", "labels")):
        return False
    known = {"annotations": live.annotations, "labels": live.labels, "spec": live.spec_members}
    return all(part is None or _has(part, wanted[name]) for name, part in known.items()) and (
        live.finalizers is None or _has_finalizers(live, wanted["finalizers"])
    )


def _has(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether ``live`` has the wanted values; None: it must not have the name."""
    return all(live.get(name) == value for name, value in wanted.items())


def _has_finalizers(live: LiveChild, wanted: Mapping[str, bool]) -> bool:
    """Whether it has the wanted finalizers. Nobody can add one to an object that is being deleted."""
    present = live.finalizers or frozenset()
    return all((name in present) == is_on for name, is_on in wanted.items() if not (is_on and live.deleting))
