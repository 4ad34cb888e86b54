"""Leader election by a Lease: one of several processes works, and another takes over when it is gone.

A leader that cannot renew its lease stops working before anybody may take the lease over. A leader that was stopped has
not noticed that time has passed, so ``holds_lease`` is asked right before each effect. Only a process that is stopped
between that check and its effect comes late. Each process measures times on its own clock, and compares only durations,
never dates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from services.common.backoff import Backoff
from services.common.clock import Clock, SystemClock
from services.common.errors import Retry, Wait
from services.common.kubernetes.api_errors import AlreadyExists, NotFound, Rejected
from services.common.kubernetes.builtin_kinds import LEASE, Manifest
from services.common.kubernetes.client import KubeClient
from services.common.ownership import FIELD_MANAGER
from services.common.times import rfc3339_micro

log = structlog.get_logger(__name__)

RENEW_EVERY, STOP_AFTER, ASK_EVERY = 1 / 3, 2 / 3, 1 / 15
"""Shares of a lease's duration: between two renewals; without a renewal until the leader stops; between two checks."""
RESIGN_SECONDS = 2.0


async def at_once() -> None:
    """The default: the process can always lead."""


def nothing_to_give_up() -> None:
    """The default: nothing is under way after the work has ended."""


@dataclass(slots=True)
class Election:
    """One candidate. ``identity`` is unique to this process; a restarted process has another."""

    kube: KubeClient
    namespace: str
    name: str
    identity: str
    seconds: int = 15
    clock: Clock = field(default_factory=SystemClock)
    wait_until_able: Callable[[], Awaitable[None]] = at_once
    """Returns when this process could lead, as far as it knows. It is a candidate only then."""
    after_leading: Callable[[], None] = nothing_to_give_up
    """Gives up what is under way, so that it does not come after the next leader's effects."""
    leading: bool = False
    _renewed: float = 0
    _seen_version: str = ""
    _seen_at: float = 0

    @property
    def holds_lease(self) -> bool:
        """Whether nobody else can lead yet. False in a leader that was stopped for long, even before it has noticed."""
        return self.leading and self.clock.time() < self._stop_at

    @property
    def _stop_at(self) -> float:
        return self._renewed + self.seconds * STOP_AFTER

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the election, work until the lease is lost, and again, for ever.

        Raises what ``work`` raises, Rejected. If ``work`` returns, this process cannot go on, and another may.
        """
        while True:
            await self.wait_until_able()
            while not await self._acquired():
                await self.clock.sleep(self.seconds * ASK_EVERY)
            log.info("leading", lease=self.name, identity=self.identity)
            await self._work_while_leading(work)
            log.warning("no longer leading", lease=self.name, identity=self.identity)
            self.after_leading()
            await self.resign()

    async def resign(self) -> None:
        """Let another process lead at once, if the lease is ours. Call it when none of our effects is outstanding."""
        try:
            async with self._timeout(RESIGN_SECONDS):
                lease = await self.kube.get_object(LEASE, self.namespace, self.name)
                if lease["spec"].get("holderIdentity") == self.identity:
                    await self._write(lease, holder="")
        except (Retry, Wait, Rejected, TimeoutError) as error:
            log.warning("lease not given back; it runs out", error=str(error))

    async def _work_while_leading(self, work: Callable[[], Awaitable[None]]) -> None:
        working, keeping = asyncio.ensure_future(work()), asyncio.ensure_future(self._keep())
        self.leading = True
        try:
            await asyncio.wait([working, keeping], return_when=asyncio.FIRST_COMPLETED)
            (working if working.done() else keeping).result()
        finally:
            self.leading = False
            working.cancel()
            keeping.cancel()
            await asyncio.wait([working, keeping])

    async def _keep(self) -> None:
        """Renew the lease again and again. Returns when it is another's, or could soon be."""
        try:
            while True:
                async with self.clock.timeout_at(self._stop_at):
                    await self.clock.sleep(self.seconds * RENEW_EVERY)
                    if not await self._acquired():
                        return
        except TimeoutError:
            log.warning("lease could not be renewed", lease=self.name)

    async def _acquired(self) -> bool:
        """Try to get the lease; returns whether it is ours, for its duration from the call on. Waits for an answer."""
        delays = Backoff(first=self.seconds * ASK_EVERY / 2, limit=self.seconds * ASK_EVERY)
        while True:
            try:
                async with self._timeout(self.seconds * RENEW_EVERY):
                    return await self._try()
            except (Retry, Wait, TimeoutError) as error:
                log.warning("awaiting an answer about the lease", lease=self.name, error=repr(error))
                await self.clock.sleep(delays.next_delay())

    async def _try(self) -> bool:
        asked = self.clock.time()
        try:
            lease = await self.kube.get_object(LEASE, self.namespace, self.name)
            if not self._may_take(lease, asked):
                return False
            await self._write(lease, holder=self.identity)
        except NotFound:
            await self._create()
        self._renewed = asked
        return True

    def _may_take(self, lease: Manifest, now: float) -> bool:
        """Whether the lease is ours, free or expired."""
        spec, version = lease.get("spec") or {}, lease["metadata"]["resourceVersion"]
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, now
        silent = now - self._seen_at
        return spec.get("holderIdentity", "") in {"", self.identity} or silent >= spec.get("leaseDurationSeconds", 0)

    async def _create(self) -> None:
        meta = {"name": self.name, "namespace": self.namespace}
        manifest = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": meta, "spec": self._spec()}
        try:
            await self.kube.create_object(LEASE, manifest, field_manager=FIELD_MANAGER)
        except AlreadyExists as error:
            raise Retry(str(error)) from error

    async def _write(self, lease: Manifest, holder: str) -> None:
        """Raises Conflict if the lease was written since it was read."""
        spec = self._spec() | {"holderIdentity": holder}
        patch = {"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}, "spec": spec}
        await self.kube.patch_object(LEASE, self.namespace, self.name, patch, field_manager=FIELD_MANAGER)

    def _timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return self.clock.timeout_at(self.clock.time() + seconds)

    def _spec(self) -> Manifest:
        renewed = rfc3339_micro(datetime.now(UTC))
        return {"holderIdentity": self.identity, "leaseDurationSeconds": self.seconds, "renewTime": renewed}
