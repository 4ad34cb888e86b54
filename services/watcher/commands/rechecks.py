"""Sends resources again when what their newest command said of another object is no longer true.

That object is a class, or the keys to seal to. :mod:`command_sender` notes what each command said. A resource that is
sent again waits its turn like any change, and costs its tenant a token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from services.watcher.commands.pending_changes import Change, PendingChanges
from services.watcher.commands.translation import LastSent


class SentState(NamedTuple):
    """What the newest command of a resource said of another object."""

    namespace: str
    name: str
    subject: str
    """The other object."""
    state: str
    """The state of that object in the command."""


@dataclass(slots=True)
class Rechecks:
    """Queues resources of one kind whose newest command is outdated."""

    newest_state: Callable[[str], str]
    """Returns the current state of a subject."""
    last_sent: LastSent
    changes: PendingChanges
    _by_uid: dict[str, SentState] = field(default_factory=dict)
    _by_subject: dict[str, dict[str, None]] = field(default_factory=dict)

    def note_sent(self, uid: str, sent: SentState) -> None:
        """Record what a command says. If that has changed since, the resource is queued."""
        self.forget_resource(uid)
        self._by_uid[uid] = sent
        self._by_subject.setdefault(sent.subject, {})[uid] = None
        if self.newest_state(sent.subject) != sent.state:
            self._queue_again(uid)

    def forget_resource(self, uid: str) -> None:
        """Forget a resource that is gone, or is to be sent again."""
        if (known := self._by_uid.pop(uid, None)) is None:
            return
        of_subject = self._by_subject[known.subject]
        del of_subject[uid]
        if not of_subject:
            del self._by_subject[known.subject]

    def observe_subject(self, subject: str) -> None:
        """Queue the resources that name ``subject``, which was added, changed or deleted."""
        newest = self.newest_state(subject)
        for uid in list(self._by_subject.get(subject, ())):
            if self._by_uid[uid].state != newest:
                self._queue_again(uid)

    def _queue_again(self, uid: str) -> None:
        """Queue the resource, which is unchanged itself. It is read again when its turn comes."""
        sent, state = self._by_uid[uid], self.last_sent.get(uid)
        if state is not None and uid not in self.changes:
            self.changes.add_change(Change(uid, sent.namespace, sent.name, state, datetime.now(UTC)))
