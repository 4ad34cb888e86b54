"""An operator's eyes and hands at the fleet: a look at it every moment, and the commands that are typed."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import typer

from devstack.demo.fleet_news import news
from services.cli.fleet import engines
from services.cli.fleet.fleet_view import FleetSnapshot, load_snapshot
from services.common.errors import Unavailable
from services.common.startup import await_dependency

LOOK_EVERY_SECONDS = 0.25
DATABASE_SECONDS = 10.0


class FleetWatch:
    """Looks at the fleet, and says what has changed."""

    def __init__(self, environment: Mapping[str, str], snapshot: FleetSnapshot, say: Callable[[str], None]) -> None:
        """``environment``: an operator's, see ``dev env``; ``snapshot``: the first look; ``say`` shows a line."""
        self.snapshot, self.say = snapshot, say
        self._environment = environment
        self._looked = asyncio.Condition()
        self._begun = self._shown = 0
        """Looks that have begun; the number of the one that ``snapshot`` is of."""

    async def follow(self) -> None:
        """Look again and again, for as long as it is not cancelled."""
        while True:
            self._begun += 1
            snapshot = await look(self._environment)
            for line in news(self.snapshot, snapshot):
                self.say(f"  {line}")
            async with self._looked:
                self.snapshot, self._shown = snapshot, self._begun
                self._looked.notify_all()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def until(self, what: str, holds: Callable[[FleetSnapshot], bool], timeout_seconds: float = 60) -> None:
        """Return once ``holds`` is true of a look that began after the call. Raises Unavailable if that takes long."""
        begun = self._begun
        async with self._looked:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._looked.wait_for(lambda: self._shown > begun and holds(self.snapshot))
            except TimeoutError:
                raise Unavailable(f"not within {timeout_seconds:g} s: {what}") from None

    async def order(self, command: str) -> None:
        """Type ``gitopsctl engines COMMAND``. Raises Unavailable if it is refused."""
        self.say(f"$ gitopsctl engines {command}")
        if await asyncio.to_thread(self._typed, shlex.split(command)):
            raise Unavailable(f"gitopsctl engines {command}: refused")

    def _typed(self, arguments: list[str]) -> int:
        """The exit code of the command itself: in this process, as starting another takes seconds.

        The variables are what an operator's shell has by ``dev env``.
        """
        os.environ.update(self._environment)
        ended = typer.main.get_command(engines.app).main(arguments, "gitopsctl engines", standalone_mode=False)
        return ended if isinstance(ended, int) else 0


async def look(environment: Mapping[str, str]) -> FleetSnapshot:
    """At the fleet, now. Raises Unavailable."""
    url = environment["DATABASE_READER_URL"]
    return await asyncio.to_thread(await_dependency, "database", lambda: load_snapshot(url), DATABASE_SECONDS)


def _cause(following: asyncio.Task[None]) -> BaseException | None:
    """Why nobody looks any more, and so nothing that was waited for could be seen; None if somebody does."""
    return following.exception() if following.done() else None


@asynccontextmanager
async def watched_fleet(environment: Mapping[str, str], say: Callable[[str], None]) -> AsyncIterator[FleetWatch]:
    """A watch for as long as the block runs."""
    watch = FleetWatch(environment, await look(environment), say)
    following = asyncio.create_task(watch.follow())
    try:
        yield watch
    except Unavailable as error:
        raise _cause(following) or error from error
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
