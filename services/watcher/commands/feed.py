"""Follows one kind of resource and sends every change as a command.

The bootstrap starts one feed per kind. For every state of a resource the planner gets that state or a later one. For a
deleted resource it gets ResourceGone, or a ResyncCompleted whose epoch is newer than all commands about that resource.
A command may be sent twice, which is harmless.

A feed runs one :class:`FollowSession` after another. Each session ends when a command is lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from services.common.backoff import Backoff
from services.common.errors import Retry, Unavailable
from services.common.kubernetes import Changed, Deleted, Reflection
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.commands.epochs import ListProgress
from services.watcher.commands.follow_session import FeedParts, FollowSession, restores_of
from services.watcher.followed_kinds import FollowedKind

log = structlog.get_logger(__name__)

MAX_LOSSES = 3
"""How many sessions in a row may lose a command before they complete a list. Then the process ends: a new producer may
do better. A producer whose state the broker no longer knows never recovers."""


@dataclass(slots=True)
class Feed:
    """Follows one kind of resource."""

    parts: FeedParts
    delays: Backoff = field(default_factory=lambda: Backoff(first=0.5))
    _progress: ListProgress = field(default_factory=ListProgress)
    _session: FollowSession | None = None
    """None between sessions."""
    _losses: int = 0
    _asked_anew: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        # From the start on it says 0: of a counter that begins with 1 Prometheus sees no increase.
        restores_of(self.parts)

    def observe_secret(self, event: Reflection) -> None:
        """Send again the resources that name this Secret."""
        if self._session is not None:
            self._session.observe_secret(event)

    def observe_unfollowed(self, event: Changed | Deleted) -> None:
        """Send again the resources that name this Secret, which is not followed, and was added, changed or deleted."""
        if self._session is not None:
            self._session.observe_unfollowed(event)

    def observe_class(self, name: str) -> None:
        """Send again the resources that name this class, which has changed."""
        if self._session is not None:
            self._session.observe_class(name)

    def observe_tenant(self, namespace_digest: str) -> None:
        """Send again what was sealed for this tenant, which is now in other engine clusters."""
        if self._session is not None:
            self._session.observe_tenant(namespace_digest)

    @property
    def kind(self) -> FollowedKind:
        """The kind that is followed."""
        return self.parts.kind

    @property
    def sends_versions(self) -> bool:
        """Whether a command is valid for one version of a followed Secret only."""
        return self.parts.sealer is not None or bool(self.kind.copied_secret)

    @property
    def listed(self) -> bool:
        """Whether a list was completed and acknowledged since :meth:`run` began."""
        return self._progress.complete_epoch > 0

    @property
    def complete_epoch(self) -> int:
        """The epoch of the newest such list, 0 if there is none."""
        return self._progress.complete_epoch

    @property
    def is_complete(self) -> bool:
        """Whether the newest list was completed and acknowledged."""
        return self._progress.is_complete

    def list_anew(self) -> None:
        """Begin a new list."""
        self._asked_anew.set()

    async def run(self) -> None:
        """Follow for ever.

        Raises Rejected if the API server forbids it, Unavailable if Kafka takes no commands for long.
        """
        self._progress.complete_epoch = 0
        while True:
            try:
                await self._follow()
            except Retry as error:
                self._losses += 1
                metrics.count_failure(SERVICE, error, "send")
                log.warning("a command was lost; listing again", error=str(error), losses=self._losses)
                if self._losses == MAX_LOSSES:
                    raise Unavailable(f"Kafka takes no commands: {error}") from error
                await asyncio.sleep(self.delays.next_delay())

    async def _follow(self) -> None:
        """Follow until a command is lost (raises Retry)."""
        self._session = FollowSession(self.parts, self._progress, self._asked_anew, self._record_complete_list)
        try:
            await self._session.run()
        finally:
            self._session = None

    def _record_complete_list(self, epoch: int) -> None:
        self._progress.complete_epoch, self._losses = epoch, 0
        self.delays.reset()
