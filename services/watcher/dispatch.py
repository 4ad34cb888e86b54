"""From the head of the queue to Kafka: what is only read when a command goes out is read here, and the command sent.

Run by :mod:`feed`. What it promises: commands go out in the order in which their turns came, though several look-ups
are under way at a time, and an epoch is declared only after all of its list.

``take → note → look up, several at a time → send, in order``
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from services.common.kube import SECRET
from services.common.messages import Command, ResourceChanged, ResourceGone
from services.common.telemetry import metrics
from services.watcher import SERVICE
from services.watcher.commands import Translator
from services.watcher.echoes import Echoes
from services.watcher.kinds import Kind
from services.watcher.lookups import Lookups
from services.watcher.outbox import Outbox
from services.watcher.references import Reference, References
from services.watcher.secrets import SecretTypes
from services.watcher.waiting import Change, Waiting

LOOKUPS = 8
"""Look-ups of one kind under way, and so the commands that are held between the queue and Kafka."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Makes the command of a change, with what is known only when it goes out."""

    kind: Kind
    translate: Translator
    lookups: Lookups
    types: SecretTypes

    async def of(self, change: Change, epoch: int, held_back_ms: int) -> tuple[Command | None, str]:
        """The command, and what the resource refers to; None if the resource is gone: its removal will be told.

        Raises Refused if the resource may not be read.
        """
        command, refers_to = change.command, change.refers_to
        if command is None:
            manifest = await self.lookups.read(self.kind.resource, change.tenant, change.name, change.uid)
            if manifest is None:
                return None, ""
            command = self.translate.changed(manifest, epoch, change.seen_at)
            refers_to = self.kind.reference_of(manifest)
        if isinstance(command.event, ResourceChanged):
            found = await self._found(change.tenant, refers_to)
            command = replace(command, event=replace(command.event, held_back_ms=held_back_ms, **found))
        return command, refers_to

    async def _found(self, namespace: str, name: str) -> dict[str, Any]:
        """What a command says of the object that its resource refers to."""
        if not name or self.kind.refers_to is None:
            return {}
        if self.kind.refers_to is SECRET:
            return {"secret_type": await self.types.type_of(namespace, name)}
        target = await self.lookups.find(self.kind.refers_to, namespace, name)
        if target is None:
            return {}
        meta = target["metadata"]
        return {"target_uid": meta["uid"], "target_generation": meta.get("generation", 0)}


@dataclass(frozen=True, slots=True)
class _ListIsOut:
    epoch: int


@dataclass(frozen=True, slots=True)
class _Begun:
    change: Change
    command: asyncio.Task[tuple[Command | None, str]]


@dataclass(slots=True)
class Dispatch:
    """Empties ``waiting`` into ``outbox``."""

    waiting: Waiting
    outbox: Outbox
    wording: Wording
    echoes: Echoes
    references: References
    epoch: Callable[[], int]
    """Of the newest list."""
    complete_epoch: Callable[[int], Awaitable[None]]
    """Declare that all of the list of this epoch was put into the outbox."""
    _begun: asyncio.Queue[_Begun | _ListIsOut] = field(default_factory=lambda: asyncio.Queue(LOOKUPS))

    async def begin(self) -> None:
        """For ever: take what may be sent, and begin its look-ups."""
        while True:
            taken = await self.waiting.take()
            if taken is None:
                await self._begun.put(_ListIsOut(self.epoch()))
                continue
            change, held_back_ms = taken
            # Noted before it is sent: if sending fails, all of this is given up.
            if change.fingerprint is None:
                self.echoes.forget(change.uid)
            else:
                self.echoes.sent(change.uid, change.fingerprint)
            command = asyncio.ensure_future(self.wording.of(change, self.epoch(), held_back_ms))
            try:
                await self._begun.put(_Begun(change, command))
            except asyncio.CancelledError:
                command.cancel()
                raise

    async def send(self) -> None:
        """For ever: send what is complete, in order. Raises Retry if a command was lost, Refused."""
        while True:
            begun = await self._begun.get()
            if isinstance(begun, _ListIsOut):
                await self.complete_epoch(begun.epoch)
            else:
                await self._send(begun.change, *await begun.command)

    def close(self) -> None:
        """Give up what was begun."""
        while not self._begun.empty():
            begun = self._begun.get_nowait()
            if isinstance(begun, _Begun):
                begun.command.cancel()

    async def _send(self, change: Change, command: Command | None, refers_to: str) -> None:
        self._keep(change, command, refers_to)
        if command is not None:
            await self.outbox.put(command)
            what = "removed" if isinstance(command.event, ResourceGone) else "changed"
            metrics.WATCH_EVENTS.labels(SERVICE, self.wording.kind.name, what).inc()

    def _keep(self, change: Change, command: Command | None, refers_to: str) -> None:
        """Remember what is told of a Secret, to tell it again when that changes."""
        event = command.event if command else None
        if isinstance(event, ResourceChanged) and refers_to and self.wording.kind.refers_to is SECRET:
            self.references.note(Reference(change.uid, change.tenant, change.name, refers_to, event.secret_type))
        else:
            self.references.forget(change.uid)
