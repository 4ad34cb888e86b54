"""A tenant's namespace as its API server has it, and a watcher that writes there what rows want and tells what is."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from services.planner.domain.events import Event
from services.planner.rows.compiled import ChildRow
from tests.unit.planner.given import resource_gone

Key = tuple[str, str]
"""Kind and name."""


@dataclass
class Live:
    """An object as the API server has it."""

    uid: str
    spec: dict[str, Any]
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    deleting: bool = False
    generation: int = 1
    created_at: int = 0
    """Milliseconds since 1970."""
    controller: str = ""
    """Uid of the object that it goes with."""

    def apply(self, manifest: dict[str, Any]) -> bool:
        """Write what a row says of it; whether that has changed anything."""
        before = self._content()
        spec = _merged(self.spec, manifest["spec"])
        self.generation += spec != self.spec
        self.spec = spec
        self.labels = _merged(self.labels, manifest["labels"])
        self.annotations = _merged(self.annotations, manifest.get("annotations", {}))
        for name, is_on in manifest.get("finalizers", {}).items():
            self.finalizers = [each for each in self.finalizers if each != name] + [name] * (
                is_on and (name in self.finalizers or not self.deleting)
            )
        return before != self._content()

    def _content(self) -> str:
        return json.dumps([self.spec, self.annotations, self.labels, self.finalizers], sort_keys=True)


@dataclass
class PlayedNamespace(ABC):
    """See the module. Nothing is told, or written, until somebody says so."""

    live: dict[Key, Live] = field(default_factory=dict)
    made: int = 0
    uids: str = "uid"
    """How they begin."""

    @abstractmethod
    def take(self, *events: Event) -> None:
        """The planner consumes these, one batch."""

    @abstractmethod
    def tick(self) -> int:
        """The next second."""

    @abstractmethod
    def event_of(self, key: Key) -> Event:
        """What a watcher tells of an object."""

    def tell(self, *keys: Key) -> None:
        """Tell the planner of these as they are."""
        self.take(*map(self.event_of, keys))

    def put(self, key: Key, spec: dict[str, Any], *, told: bool = True, **live: Any) -> None:
        """Make an object."""
        self.made += 1
        self.live[key] = Live(f"{self.uids}-{self.made}", spec, **live)
        if told:
            self.tell(key)

    def delete(self, key: Key) -> None:
        """It goes at once unless somebody keeps it."""
        live = self.live[key]
        live.deleting = True
        if live.finalizers:
            self.tell(key)
        else:
            self.end(key)

    def end(self, key: Key) -> None:
        """It is gone, and what it controls goes with it."""
        live = self.live.pop(key)
        self.take(self.gone(key, live))
        for child in [child for child, each in self.live.items() if each.controller == live.uid]:
            self.delete(child)

    def gone(self, key: Key, live: Live) -> Event:
        """What a watcher tells of an object that is no more."""
        return resource_gone(self.tick(), *key, live.uid)

    def write(self, row: ChildRow) -> Key | None:
        """As a watcher does: what is there already is not written. The object that has changed, if any."""
        key, live, manifest = row.key, self.live.get(row.key), json.loads(row.manifest)
        if live is None:
            return self._make(row, manifest) if row.desired == "present" and not row.uid else None
        if not _is_meant(row, live):
            return None
        if row.desired == "absent":
            if live.deleting or any(keeper in self.live for keeper in keepers_of(manifest)):
                return None
            live.deleting = True
            return key
        return key if live.apply(manifest) else None

    def _make(self, row: ChildRow, manifest: dict[str, Any]) -> Key:
        parts = {name: manifest.get(name, {}) for name in ("labels", "annotations")}
        controller = "" if row.is_unowned else row.owner_uid
        self.put(row.key, manifest["spec"], told=False, controller=controller, **parts)
        return row.key

    def follow(self, written: list[Key]) -> None:
        """Tell of what was written; what nobody keeps any more is gone."""
        for key in written:
            if key in self.live and self.live[key].deleting and not self.live[key].finalizers:
                self.end(key)
        self.tell(*(key for key in written if key in self.live))


def _is_meant(row: ChildRow, live: Live) -> bool:
    """By its uid; a child that is to be there, or was never seen, by its controller."""
    if row.is_unowned:
        return row.uid == live.uid
    return live.controller == row.owner_uid and row.uid in {"", live.uid}


def keepers_of(manifest: dict[str, Any]) -> list[Key]:
    """What keeps an object that is to be deleted."""
    names = {kind: each if isinstance(each, list) else [each] for kind, each in manifest.get("unless", {}).items()}
    return [(kind, name) for kind, each in names.items() for name in each]


def _merged(live: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**live, **patch}.items() if value is not None}
