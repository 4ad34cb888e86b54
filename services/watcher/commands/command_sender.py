"""Builds the commands of pending changes, and sends them. What a command needs besides the change is read only then.

Run by :mod:`follow_session`. Commands are sent in the order in which the changes left the queue, although several reads
are under way at a time. An epoch is declared complete only after all commands of its list.

``next_change → note → look up, several at a time → send, in order``
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from services.common.kubernetes import SECRET, ApiResource
from services.common.messages import Command, ResourceChanged, ResourceGone
from services.common.messages.command import CommandEvent
from services.common.telemetry import metrics
from services.kinds.shared.resource import SECRET_ABSENT
from services.watcher import SERVICE
from services.watcher.commands.bounded_producer import BoundedProducer
from services.watcher.commands.namespaces import Namespace, NamespaceInference, Namespaces
from services.watcher.commands.object_reader import ObjectReader
from services.watcher.commands.pending_changes import Change, PendingChanges
from services.watcher.commands.rechecks import Rechecks, SentState
from services.watcher.commands.secret_rechecks import SecretRechecks, SecretReference
from services.watcher.commands.secrets import Sealer, SecretTypes
from services.watcher.commands.target_classes import TargetClasses
from services.watcher.commands.translation import LastSent, Translator
from services.watcher.followed_kinds import FollowedKind

LOOKUPS = 8
"""How many commands of one kind are built at a time, and so how many are between the queue and Kafka."""


class BuiltCommand(NamedTuple):
    """A command, and what it says of other objects."""

    command: Command | None
    """None if the resource is gone: a command about its removal follows."""
    refers_to: str = ""
    """Name of the resource that it refers to."""
    secret_version: str = ""
    """resourceVersion of that resource, if it is a followed Secret."""
    copied_secret: str = ""
    """Name of the Secret whose version the command has."""
    sealed_for: tuple[str, str] = ("", "")
    """The namespace as a Sealer identifies it, and the keys that sealed for it when the build began."""


@dataclass(frozen=True, slots=True)
class CommandBuilder:
    """Builds the command of a change, and adds what is known only when it is sent."""

    kind: FollowedKind
    translate: Translator
    reader: ObjectReader
    types: SecretTypes
    namespaces: Namespaces
    inference: NamespaceInference
    sealer: Sealer | None = None
    """Set for Secrets, and for kinds that name them: seals what resources may use Secrets for."""
    classes: TargetClasses | None = None
    """Set for kinds that name classes."""

    async def build_command(self, change: Change, epoch: int, held_back_ms: int) -> BuiltCommand:
        """Build the command of ``change``. Raises Rejected if the resource or its namespace may not be read."""
        if change.command is not None and not isinstance(change.command.event, ResourceChanged):
            return BuiltCommand(change.command, change.refers_to)
        namespace = await self._find_namespace(change)
        if namespace is None:
            return BuiltCommand(None)
        if self.sealer is None:
            return await self._built(change, namespace, epoch, held_back_ms)
        await self.sealer.wait_until_ready()
        subject = self.sealer.subject_of(change.tenant, namespace.uid)
        sealed_for = (subject, self.sealer.key_ids_of(subject))
        return (await self._built(change, namespace, epoch, held_back_ms))._replace(sealed_for=sealed_for)

    async def _built(self, change: Change, namespace: Namespace, epoch: int, held_back_ms: int) -> BuiltCommand:
        command, refers_to = change.command, change.refers_to
        if command is None:
            manifest = await self.reader.find_incarnation(self.kind.resource, change.tenant, change.name, change.uid)
            if manifest is None:
                return BuiltCommand(None)
            command = self.translate.changed(manifest, epoch, change.seen_at, namespace.uid)
            refers_to = self.kind.reference_of(manifest)
        elif _looks_older(command, namespace) and not await self._is_there(change):
            return BuiltCommand(None)
        command = replace(command, namespace_uid=namespace.uid, namespace_created_at=namespace.created_at)
        return await self._completed(command, refers_to, held_back_ms)

    async def _find_namespace(self, change: Change) -> Namespace | None:
        """The namespace that the resource is in; None if no namespace has that name. Raises Rejected."""
        namespace = self.inference.find_namespace(change.uid, change.tenant, change.seen)
        if namespace is None:
            namespace = await self.namespaces.find_namespace(change.tenant, change.seen)
        if namespace is not None:
            self.inference.note_namespace(change.uid, change.tenant, namespace)
        return namespace

    async def _completed(self, command: Command, refers_to: str, held_back_ms: int) -> BuiltCommand:
        """``command`` with what is known only now."""
        if not isinstance(command.event, ResourceChanged):
            return BuiltCommand(None)
        event = replace(command.event, held_back_ms=held_back_ms)
        copied = self.kind.copied_secret_of(event.spec)
        if copied:
            event = await self._with_copied_secret(event, command.namespace, copied)
        if not refers_to or self.kind.refers_to is None:
            return BuiltCommand(replace(command, event=event), refers_to, copied_secret=copied)
        if self.kind.refers_to is SECRET:
            event, version = await self._with_secret(event, command, refers_to)
            return BuiltCommand(replace(command, event=event), refers_to, version)
        if self.classes is not None:
            event = replace(event, named_class=await self.classes.content_of(refers_to))
            return BuiltCommand(replace(command, event=event), refers_to, copied_secret=copied)
        event = await self._with_target(event, self.kind.refers_to, command.namespace, refers_to)
        return BuiltCommand(replace(command, event=event), refers_to)

    async def _is_there(self, change: Change) -> bool:
        """Whether the resource exists after its namespace was read; then it is in that namespace."""
        resource = self.kind.resource
        return await self.reader.find_incarnation(resource, change.tenant, change.name, change.uid) is not None

    async def _with_target(
        self, event: ResourceChanged, kind: ApiResource, namespace: str, name: str
    ) -> ResourceChanged:
        target = await self.reader.find_object(kind, namespace, name)
        if target is None:
            return event
        meta = target["metadata"]
        return replace(event, target_uid=meta["uid"], target_generation=meta.get("generation", 0))

    async def _with_copied_secret(self, event: ResourceChanged, namespace: str, name: str) -> ResourceChanged:
        found = await self.types.state_of(namespace, name)
        secret_type, version = (found.type_to_copy, found.version) if found is not None else ("", SECRET_ABSENT)
        return replace(event, secret_type=secret_type, secret_version=version)

    async def _with_secret(self, event: ResourceChanged, command: Command, name: str) -> tuple[ResourceChanged, str]:
        """``event`` with the Secret's type and what the resource may use it for; and the Secret's version."""
        version = self.types.version_of(command.namespace, name)
        event = replace(event, secret_type=await self.types.type_of(command.namespace, name))
        use = self.kind.secret_use(event.spec) if self.kind.secret_use is not None else None
        if self.sealer is None or use is None or event.secret_type != self.kind.secret_type:
            return event, version
        secret = await self.reader.find_object(SECRET, command.namespace, name)
        if secret is None or secret.get("type") != event.secret_type:
            return event, version
        binding = self.sealer.sealed_binding(secret, use, command.namespace_uid)
        return replace(event, secret_binding=binding), secret["metadata"]["resourceVersion"]


def _looks_older(command: Command, namespace: Namespace) -> bool:
    """Whether the resource seems older than its namespace. Different clocks set the times, so this is only a hint."""
    return isinstance(command.event, ResourceChanged) and 0 < command.event.created_at < namespace.created_at


@dataclass(frozen=True, slots=True)
class _ListIsOut:
    epoch: int


@dataclass(frozen=True, slots=True)
class _Begun:
    change: Change
    command: asyncio.Task[BuiltCommand]


@dataclass(slots=True)
class CommandSender:
    """Sends the changes of ``changes`` to ``producer``."""

    changes: PendingChanges
    producer: BoundedProducer
    builder: CommandBuilder
    last_sent: LastSent
    rechecks: SecretRechecks
    class_rechecks: Rechecks | None
    """Set for kinds that name classes."""
    key_rechecks: Rechecks | None
    """Set for Secrets, and for kinds that name them."""
    epoch: Callable[[], int]
    """Returns the epoch of the newest list."""
    complete_epoch: Callable[[int], Awaitable[None]]
    """Declares that all commands of the list of this epoch were given to the producer."""
    _begun: asyncio.Queue[_Begun | _ListIsOut] = field(default_factory=lambda: asyncio.Queue(LOOKUPS))

    async def start_builds(self) -> None:
        """Take changes and start to build their commands, for ever."""
        while True:
            taken = await self.changes.next_change()
            if taken is None:
                await self._begun.put(_ListIsOut(self.epoch()))
                continue
            change, held_back_ms = taken
            # Noted before it is sent: if sending fails, all of this is given up.
            if change.state_version is None:
                self.last_sent.pop(change.uid, None)
            else:
                self.last_sent[change.uid] = change.state_version
            command = asyncio.ensure_future(self.builder.build_command(change, self.epoch(), held_back_ms))
            try:
                await self._begun.put(_Begun(change, command))
            except asyncio.CancelledError:
                command.cancel()
                raise

    async def send_commands(self) -> None:
        """Send built commands in order, for ever. Raises Retry if a command was lost, Rejected."""
        while True:
            begun = await self._begun.get()
            if isinstance(begun, _ListIsOut):
                await self.complete_epoch(begun.epoch)
            else:
                await self._send(begun.change, await begun.command)

    def close(self) -> None:
        """Cancel the builds under way."""
        while not self._begun.empty():
            begun = self._begun.get_nowait()
            if isinstance(begun, _Begun):
                begun.command.cancel()

    async def _send(self, change: Change, built: BuiltCommand) -> None:
        self._note_contents(change, built)
        command = built.command
        if command is not None:
            await self.producer.send_command(command)
            what = "removed" if isinstance(command.event, ResourceGone) else "changed"
            metrics.WATCH_EVENTS.labels(SERVICE, self.builder.kind.name, what).inc()

    def _note_contents(self, change: Change, built: BuiltCommand) -> None:
        """Note what a command says of other objects, so that another is sent when they change."""
        event = built.command.event if built.command else None
        if self.class_rechecks is not None:
            named_class = event.named_class if isinstance(event, ResourceChanged) else ""
            self._note(self.class_rechecks, change, event, (built.refers_to, named_class))
        if self.key_rechecks is not None:
            self._note(self.key_rechecks, change, event, built.sealed_for)
        secret, version = built.copied_secret, event.secret_version if isinstance(event, ResourceChanged) else ""
        if not secret and self.builder.kind.refers_to is SECRET:
            secret, version = built.refers_to, built.secret_version
        if isinstance(event, ResourceChanged) and secret:
            self.rechecks.note_reference(
                SecretReference(change.uid, change.tenant, change.name, secret, event.secret_type, version)
            )
        else:
            self.rechecks.references.forget_resource(change.uid)

    @staticmethod
    def _note(rechecks: Rechecks, change: Change, event: CommandEvent | None, sent: tuple[str, str]) -> None:
        if isinstance(event, ResourceChanged):
            rechecks.note_sent(change.uid, SentState(change.tenant, change.name, *sent))
        else:
            rechecks.forget_resource(change.uid)
