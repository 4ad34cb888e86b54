"""Decides whether this process follows the workspace: always, or, if several serve it, while it holds the lease.

Run by :mod:`services.watcher.watcher`. Only the leader reads resources and declares epochs complete. All watchers write
statuses.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from services.common.errors import NoPermission
from services.common.kubernetes import Election, Rejected, startup_error
from services.common.startup import one_line
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.commands.epochs import Epochs, until_answered
from services.watcher.commands.feed import Feed
from services.watcher.commands.follow_session import never
from services.watcher.followed_kinds import access_to

log = structlog.get_logger(__name__)

LEASE = "gitops-watcher"
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def lease_name(workspace: str) -> str:
    """Name of the Lease of the watchers of ``workspace``: valid in Kubernetes, and different for each workspace.

    A workspace name that is no valid label is changed. The changed name ends with a hash of the original and has
    another separator, so no two workspaces get the same Lease.
    """
    if LABEL.fullmatch(workspace):
        return f"{LEASE}-{workspace}"
    readable = re.sub(r"[^a-z0-9-]", "-", workspace.lower())
    return f"{LEASE}.{readable}-{hashlib.sha256(workspace.encode()).hexdigest()[:16]}"


@dataclass(slots=True)
class Leadership:
    """The feeds, which run while this process leads."""

    feeds: list[Feed]
    epochs: Epochs
    newest_command: Callable[[], Awaitable[int]]
    """Greatest timestamp in the topic of commands."""
    election: Election | None = None
    until_commands_fail: Callable[[], Awaitable[None]] = never
    """Returns when Kafka does not answer this process; it may still answer another."""
    list_in_turn: Callable[[], Awaitable[None]] = never
    """Lists the feeds anew in turn, for ever."""
    follow_named: Sequence[Callable[[], Awaitable[None]]] = ()
    """Each follows, for ever, what resources of the feeds name and no feed follows."""

    @property
    def is_standby(self) -> bool:
        """Whether another process may be leading."""
        return self.election is not None and not self.election.leading

    async def run(self) -> None:
        """Follow whenever this process leads, for ever. Raises StartupError if a feed cannot go on."""
        if self.election is None:
            await self._follow()
            return
        try:
            await self.election.run(self._follow)
        except Rejected as error:
            raise NoPermission(f"cannot hold the lease {self.election.name}: {one_line(error)}") from error

    async def resign(self) -> None:
        """Let another process lead at once."""
        if self.election is not None:
            await self.election.resign()

    def unready_because(self) -> str:
        """Why nothing is followed yet; empty if it is, or if another process leads."""
        unlisted = [feed.kind.resource.plural for feed in self.feeds if not feed.listed]
        return f"{', '.join(unlisted)} not listed yet" if unlisted and not self.is_standby else ""

    async def _follow(self) -> None:
        """Run all feeds until one fails, or until this process cannot send commands while another may.

        The epochs begin above any that another leader may have used, whatever its clock.
        """
        silence = asyncio.ensure_future(self.until_commands_fail() if self.election is not None else never())
        feeding = asyncio.create_task(self._feed())
        try:
            await asyncio.wait([feeding, silence], return_when=asyncio.FIRST_COMPLETED)
            (feeding if feeding.done() else silence).result()
        finally:
            feeding.cancel()
            silence.cancel()
            await asyncio.wait([feeding, silence])

    async def _feed(self) -> None:
        self.epochs.raise_to(await until_answered(self.newest_command, "how far the commands are"))
        metrics.LEADER.labels(SERVICE).set(1)
        feeding = [asyncio.create_task(_follow(feed)) for feed in self.feeds]
        feeding += [asyncio.ensure_future(follow()) for follow in (self.list_in_turn, *self.follow_named)]
        try:
            await asyncio.gather(*feeding)
        finally:
            metrics.LEADER.labels(SERVICE).set(0)
            for task in feeding:
                task.cancel()
            await asyncio.wait(feeding)


async def _follow(feed: Feed) -> None:
    try:
        await feed.run()
    except Rejected as error:
        raise startup_error(access_to(feed.kind), error) from error
