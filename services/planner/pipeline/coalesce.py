"""Keeps only the newest state of each resource in a batch. Called by ``loop`` between decoding and planning.

A state that is replaced within a batch is not planned: a tenant that changes one resource a hundred times costs one
change. The newest message keeps its own place in the order. A resync marker keeps its place in its partition, and no
message replaces another one across it. Commands that ask for one action each (GitOpsDeploymentSyncRun) are never
replaced. A command that carries a Secret which an operator had sealed anew replaces nothing: it counts only after the
command that the Secret was read from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

from services.common.messages import (
    Applied,
    Checked,
    Command,
    EngineHealth,
    EngineInstallation,
    Failed,
    Observation,
    OrphansKept,
    Removed,
    ResourceChanged,
    ResourceGone,
    ResyncCompleted,
    StatusReported,
    SyncMoved,
)
from services.kinds.secret.rules import is_from_row
from services.kinds.shared.incarnation import version_order
from services.kinds.sync_run.model import SYNC_RUN
from services.kinds.sync_run.rules import FINAL
from services.planner.domain.events import Event


def coalesce(events: Iterable[Event]) -> tuple[Event, ...]:
    """``events``, in their order, without those that a later event replaces."""
    kept: dict[Hashable, Event] = {}
    markers: Counter[int] = Counter()
    for number, event in enumerate(events):
        key = _key(event, markers)
        if key is None or _is_revived(kept.get(key), event):
            kept[number] = event
        else:
            kept[key] = _newest(kept.pop(key, None), event)
    return tuple(kept.values())


def _key(event: Event, markers: Counter[int]) -> Hashable | None:
    """Events with the same key replace each other; None: nothing replaces the event."""
    match event.message:
        case Command(event=ResourceChanged(kind=kind) | ResourceGone(kind=kind)) if kind == SYNC_RUN.kind:
            return None
        case Command(event=ResourceChanged() as changed) if is_from_row(changed):
            return None
        case Command(event=ResourceChanged() | ResourceGone() as state) as command:
            identity = (command.workspace, command.namespace, state.kind, state.name, state.uid)
            return (event.partition, markers[event.partition], identity)
        case Command(event=ResyncCompleted()):
            markers[event.partition] += 1
            return None
        case Observation() as observation:
            subject = (observation.engine_instance_id, observation.kind, observation.name)
            return (observation.workspace, observation.namespace, subject, _aspect(observation))
        case _:
            return None


def _aspect(observation: Observation) -> Hashable:
    """What a report is about. Reports about different aspects of an object, or different manifests, stay.

    A late report may be about an older manifest. Only the planner can know that.
    """
    match observation.event:
        case StatusReported() | Removed() | EngineHealth() | EngineInstallation():
            return type(observation.event).__name__
        case Applied(digest=digest) | Failed(digest=digest):
            return ("outcome", digest)
        case Checked(digest=digest):
            return ("check", digest)
        case SyncMoved(run=run):
            return ("sync", run)
        case OrphansKept(finished=finished):
            return ("orphans", finished)


def _is_revived(before: Event | None, event: Event) -> bool:
    """Whether ``event`` shows a resource that was gone. It may be late, or restored; only its row shows which."""
    match before, event:
        case Event(message=Command(event=ResourceGone())), Event(message=Command(event=ResourceChanged())):
            return True
        case _:
            return False


def _newest(before: Event | None, event: Event) -> Event:
    """The later of two, unless it is a late one; a change is known to be as recent as either says."""
    match before, event:
        case (
            Event(message=Command(event=ResourceChanged() as first)),
            Event(message=Command(event=ResourceChanged() as second) as command),
        ):
            late = version_order(second.resource_version) < version_order(first.resource_version)
            if late and second.epoch <= first.epoch:
                return before
            merged = replace(second, epoch=max(first.epoch, second.epoch))
            return replace(event, message=replace(command, event=merged))
        case (
            Event(message=Observation(event=StatusReported() as former, observed_at=then)),
            Event(message=Observation(event=StatusReported() as latter, observed_at=at)),
        ):
            older = version_order(latter.resource_version) < version_order(former.resource_version)
            return before if older and at <= then else event
        case Event(message=Observation(event=SyncMoved(phase=phase))), _ if phase in FINAL:
            return before
        case _:
            return event
