"""Child objects that a resource wants in its own namespace, and how a live object differs from one.

A manifest has only what we own: the watcher applies it on the server side, and what others have added stays. So a live
object is right if it contains the manifest. To require an empty field, a manifest names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.common.json_values import dict_of
from services.common.messages import ChildKind
from services.kinds.shared.desired_object import DesiredObject
from services.kinds.shared.projection import OwnerReference
from services.kinds.shared.resource import PlainResource


@dataclass(frozen=True)
class ChildObject(DesiredObject):
    """A child object as its owner wants it."""

    kind: ChildKind
    spec: Mapping[str, Any]
    """Of a copied Secret: ``from`` (name of the source), its ``version``, and ``type`` (of the copy)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of its manifest."""
        return {"annotations": self.annotations, "labels": self.labels, "spec": self.spec}


@dataclass(frozen=True, slots=True)
class LiveChild:
    """The live object with the name of a child object, as a watcher reported it. None: unknown."""

    uid: str
    resource_version: str
    deleting: bool
    spec: str | None
    """JSON text."""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    controller: OwnerReference | None = None
    """Its controller in ownerReferences, ``NO_OWNER`` if it has none."""
    finalizers: frozenset[str] | None = None
    """Those of its finalizers that its kind declares."""
    is_omitted: bool = False
    """Whether its metadata was left out, because it is too long."""

    @property
    def version(self) -> str:
        """Uid and version of the object."""
        return f"{self.uid}/{self.resource_version}"

    def is_foreign_to(self, owner: PlainResource) -> bool:
        """Whether it is known to have been made for another owner.

        An object of a former resource of that name does not count: the garbage collector removes it.
        """
        controller = self.controller
        if controller is None or controller.uid == owner.uid:
            return False
        return (controller.kind, controller.name) != (owner.kind, owner.name)

    @property
    def spec_members(self) -> Mapping[str, Any] | None:
        """Members of its spec; none if the spec is no object."""
        if self.spec is None:
            return None
        try:
            return dict_of(orjson.loads(self.spec))
        except orjson.JSONDecodeError:
            return {}


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """The state of a GitOpsDeployment, from its own status."""

    sync: str = ""
    health: str = ""
    revision: str = ""
    applied: str = ""
    """The revision of the last sync, if that succeeded: there was something to change."""


@dataclass(frozen=True, slots=True)
class ChildDeployment:
    """A GitOpsDeployment that a resource wants."""

    name: str
    labels: Mapping[str, str]
    """The labels that it should have."""
    state: DeploymentState
    """Its state, if it exists."""


def differs(manifest: str, live: LiveChild) -> bool:
    """Whether ``live`` lacks something of ``manifest``, as far as ``live`` is known."""
    wanted = orjson.loads(manifest)
    known = {"annotations": live.annotations, "labels": live.labels, "spec": live.spec_members}
    return any(part is not None and not _contains(part, wanted[name]) for name, part in known.items())


def _contains(live: Any, wanted: Any) -> bool:
    """Whether ``live`` contains ``wanted``. Mappings are compared by member, everything else as a whole.

    Lists belong to one owner. A missing member counts as empty.
    """
    if isinstance(wanted, Mapping) and isinstance(live, Mapping | None):
        there = live or {}
        return all(
            _contains(there[name], value) if name in there else _is_empty(value) for name, value in wanted.items()
        )
    return bool(live == wanted)


def _is_empty(wanted: Any) -> bool:
    return all(map(_is_empty, wanted.values())) if isinstance(wanted, Mapping) else not wanted
