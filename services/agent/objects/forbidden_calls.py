"""Tolerates forbidden calls for a while: an API server that has just started may not know all rights yet."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from services.agent.objects.managed_kinds import ObjectKey
from services.common.clock import Clock
from services.common.errors import Retry, Wait
from services.common.kubernetes import ForbiddenGrace, Rejected

Answer = TypeVar("Answer")


class ForbiddenCalls:
    """Forbidden calls of one instance, by object."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._graces: dict[ObjectKey, ForbiddenGrace] = {}

    async def tolerate(self, key: ObjectKey, call: Awaitable[Answer]) -> Answer:
        """The answer of ``call``, which is about ``key``.

        Raises what it raises, but Wait if that may pass by itself.
        """
        try:
            answer = await call
        except Rejected as error:
            grace = self._graces.setdefault(key, ForbiddenGrace(clock=self._clock))
            grace.tolerate_rejection(error)
            # Without its words: they may quote what was sent.
            raise Wait("the API server forbids it, which may pass") from error
        except Retry:
            if key in self._graces:
                self._graces[key].begin_anew()
            raise
        self._graces.pop(key, None)
        return answer
