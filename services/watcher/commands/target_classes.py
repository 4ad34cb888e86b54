"""DeploymentTargetClasses: what commands about resources that name a class say of it.

A class belongs to no namespace, and so to no partition of the commands. So each resource that names a class carries
what the planner needs of it, in the order of that resource's tenant. When a class changes or is deleted, each resource
that names it is sent again (:mod:`rechecks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from services.common.json_values import bounded
from services.common.kubernetes import Informer, KubeClient, Manifest, ObjectStore, reflect
from services.kinds.deployment_target_class.model import DEPLOYMENT_TARGET_CLASS

MAX_CLASS_BYTES = 16 * 1024


def class_content(manifest: Manifest, _part: str = "") -> str:
    """What commands say of a class: its version and spec as JSON; empty if that is too long."""
    content = {"version": manifest["metadata"]["resourceVersion"], "spec": manifest.get("spec") or {}}
    text, omitted = bounded(content, MAX_CLASS_BYTES, "class")
    return "" if omitted else text


@dataclass(slots=True)
class TargetClasses:
    """All classes of the workspace cluster, for all kinds together."""

    kube: KubeClient
    observers: list[Callable[[str], None]] = field(default_factory=list)
    """Called with the name of each class that was added, changed or deleted."""
    _store: ObjectStore[str, str] = field(
        default_factory=lambda: ObjectStore(lambda manifest: str(manifest["metadata"]["name"]), class_content)
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
        """The content of the class of this name, empty if there is none. Waits for the first list."""
        await self._listed.wait()
        return self.newest_content_of(name)

    def newest_content_of(self, name: str) -> str:
        """The content of the class of this name, empty if there is none or if none is listed yet."""
        return self._store.get(name, "")
