"""DeploymentTargetClasses: what commands of resources that name one carry, and which of these are sent again.

A class belongs to no namespace, so to no partition of the commands. What the planner has to know of it comes with each
resource that names it, in the order of that resource's tenant. When a class changes, or goes, each resource that names
it is sent again: like any change it waits its turn and costs its tenant a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from services.common.json_values import bounded
from services.common.kubernetes import Informer, KubeClient, Manifest, ObjectStore, reflect
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS
from services.watcher.commands.pending_changes import Change, PendingChanges
from services.watcher.commands.translation import LastSent

MAX_CLASS_BYTES = 16 * 1024


def told_class(manifest: Manifest, _part: str = "") -> str:
    """What commands carry of a class: JSON of its version and its spec; "" if that is too long to be one."""
    content = {"version": manifest["metadata"]["resourceVersion"], "spec": manifest.get("spec") or {}}
    text, omitted = bounded(content, MAX_CLASS_BYTES, "class")
    return "" if omitted else text


@dataclass(slots=True)
class TargetClasses:
    """All classes of the workspace cluster; for all kinds together."""

    kube: KubeClient
    observers: list[Callable[[str], None]] = field(default_factory=list)
    """Called with the name of each class that has come, changed or gone."""
    _store: ObjectStore[str, str] = field(
        default_factory=lambda: ObjectStore(lambda manifest: str(manifest["metadata"]["name"]), told_class)
    )
    _listed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follow them for ever. Raises Rejected if the API server forbids it."""
        informer = Informer(reflect(self.kube, DEPLOYMENT_TARGET_CLASS), self._store)
        async for _, names in informer.changes():
            if self._store.is_complete:
                self._listed.set()
            for name in names:
                for observe in self.observers:
                    observe(name)

    async def content_of(self, name: str) -> str:
        """What commands carry of the class of this name, "" if there is none; waits for the first list."""
        await self._listed.wait()
        return self.newest_content_of(name)

    def newest_content_of(self, name: str) -> str:
        """The same without a wait."""
        return self._store.get(name, "")


class ClassReference(NamedTuple):
    """A resource, and what its newest command said of the class that it names."""

    namespace: str
    name: str
    class_name: str
    told: str


@dataclass(slots=True)
class ClassRechecks:
    """Queues resources of one kind whose class has changed since they were sent."""

    classes: TargetClasses
    last_sent: LastSent
    changes: PendingChanges
    _by_uid: dict[str, ClassReference] = field(default_factory=dict)
    _by_class: dict[str, dict[str, None]] = field(default_factory=dict)

    def note_reference(self, uid: str, reference: ClassReference) -> None:
        """Record what a command says; the class may have changed since."""
        self.forget_resource(uid)
        self._by_uid[uid] = reference
        self._by_class.setdefault(reference.class_name, {})[uid] = None
        if self.classes.newest_content_of(reference.class_name) != reference.told:
            self._tell_again(uid)

    def forget_resource(self, uid: str) -> None:
        """The resource is gone, or is to be sent again."""
        if (known := self._by_uid.pop(uid, None)) is None:
            return
        of_class = self._by_class[known.class_name]
        del of_class[uid]
        if not of_class:
            del self._by_class[known.class_name]

    def observe_class(self, name: str) -> None:
        """A class has come, changed or gone."""
        newest = self.classes.newest_content_of(name)
        for uid in list(self._by_class.get(name, ())):
            if self._by_uid[uid].told != newest:
                self._tell_again(uid)

    def _tell_again(self, uid: str) -> None:
        """The resource is as it was; it is read again when its turn comes."""
        reference, state = self._by_uid[uid], self.last_sent.get(uid)
        if state is not None and uid not in self.changes:
            self.changes.add_change(Change(uid, reference.namespace, reference.name, state, datetime.now(UTC)))
