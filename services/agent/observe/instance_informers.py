"""Follows the objects of one instance, with an informer for each kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from services.agent import SERVICE
from services.agent.background_tasks import BackgroundTasks
from services.agent.objects.live import EngineObjects, LiveObject
from services.agent.objects.managed_kinds import KINDS, ManagedKind, ObjectKey
from services.common.kubernetes import Informer, ListCompleted, ListStarted, Reflection
from services.common.telemetry import metrics

Follow = Callable[[ManagedKind, str], AsyncGenerator[Reflection]]
"""Lists and watches our objects of one kind in one namespace, for ever."""


class InstanceInformers:
    """Keeps ``objects`` as the API server shows them."""

    def __init__(
        self,
        namespace: str,
        objects: EngineObjects,
        on_change: Callable[[ObjectKey], None],
        on_listed: Callable[[], None],
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``on_change`` is called for each object that changed, ``on_listed`` whenever all kinds have been listed."""
        self._namespace, self._objects, self._on_change, self._on_listed = namespace, objects, on_change, on_listed
        self._unlisted = set(KINDS)
        self._tasks = BackgroundTasks(on_defect)

    @property
    def listed(self) -> bool:
        """Whether every kind has been listed once."""
        return not self._unlisted

    def start(self, follow: Follow) -> None:
        """Follow for ever."""
        for name, kind in KINDS.items():
            informer = Informer(follow(kind, self._namespace), self._objects.stores[name])
            self._tasks.start_task(self._run(name, informer), f"informer {name}")

    async def stop(self) -> None:
        """End the informers."""
        self._tasks.cancel_all()
        await self._tasks.wait_for_all()

    async def _run(self, kind: str, informer: Informer[ObjectKey, LiveObject]) -> None:
        async for event, changed in informer.changes():
            metrics.WATCH_EVENTS.labels(SERVICE, kind, type(event).__name__).inc()
            metrics.RESOURCES.labels(SERVICE, kind).set(len(informer.store))
            for key in changed:
                self._on_change(key)
            match event:
                case ListStarted():
                    metrics.WATCH_RELISTS.labels(SERVICE, kind).inc()
                case ListCompleted():
                    self._complete_list(kind)

    def _complete_list(self, kind: str) -> None:
        self._unlisted.discard(kind)
        if self.listed:
            self._on_listed()
