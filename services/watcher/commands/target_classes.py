"""DeploymentTargetClasses: what commands of resources that name one carry, and which of these are sent again.

A class belongs to no namespace, so to no partition of the commands. What the planner has to know of it comes with each
resource that names it, in the order of that resource's tenant. When a class changes, or goes, each resource that names
it is sent again (:mod:`rechecks`).
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
        """What commands carry of the class of this name, "" if there is none; waits for the first list."""
        await self._listed.wait()
        return self.newest_content_of(name)

    def newest_content_of(self, name: str) -> str:
        """The same without a wait."""
        return self._store.get(name, "")
