"""Decides the next API call that brings an object closer to its desired state. Pure; time is an argument.

The reconciler calls it repeatedly until there is nothing to do, or until it has to wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from services.agent.objects.live import LiveObject, owned_part
from services.agent.objects.live_operation import RUNNING, LiveOperation, termination_patch
from services.agent.objects.managed_kinds import ManagedKind
from services.agent.objects.reconciliation import REFRESH
from services.common.json_values import dict_of
from services.common.kubernetes import Manifest
from services.common.ownership import MANAGED_BY, MANAGER, OURS


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The object is as desired, or is not there as desired."""


@dataclass(frozen=True, slots=True)
class Create:
    """It does not exist."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Apply:
    """Something is missing or different: server-side apply."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch: something exists that must not, or deletion needs something first.

    Server-side apply cannot take away what another manager owns, nor what our own POST owns (a create is recorded
    as an Update of the same manager name, an apply as an Apply): a merge patch removes by name, whoever owns it.
    """

    patch: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """It exists, and its deletion was not asked for yet."""

    uid: str
    version: int | None = None
    """Only of this version: what matters of it would be lost with another one. None: of any."""
    propagation: Literal["Background", "Foreground", ""] = ""
    """Empty: as of its kind."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizers:
    """The deletion deadline has passed: remove the finalizers."""

    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class AwaitRemoval:
    """It is being deleted; requeue it on a watch event, at the latest at ``deadline``."""

    deadline: datetime


OPERATION_PATIENCE = timedelta(seconds=60)
"""How long an operation of an Application that is released may go on before it is ended, so that another instance may
have that."""

ObjectStep = Unchanged | Create | Apply | Patch | Delete | RemoveFinalizers | AwaitRemoval


def next_step(
    kind: ManagedKind, desired: Manifest | None, live: LiveObject | None, now: datetime, deletion_timeout: timedelta
) -> ObjectStep:
    """What to do next; ``desired`` None: the object shall not exist. After the timeout a deletion is forced."""
    if live is None:
        return Unchanged() if desired is None else Create(desired)
    if live.deletion_started is not None:
        # Desired or not: what is being deleted has to be gone before it can be made again.
        return _going(kind, live, live.deletion_started + deletion_timeout, now)
    return _removal(kind, live) if desired is None else _change(kind, desired, live)


def release_step(live: LiveObject | None, now: datetime, since: datetime, *, at_once: bool = False) -> ObjectStep:
    """What to do next so that an Application goes, and all that it has deployed stays.

    1. Argo CD begins nothing by itself any more. 2. What it is doing ends, or is ended. 3. Without finalizers nothing
    of it is left to do for Argo CD. 4. It is deleted, if nothing has begun since: its version decides.

    Args:
        live: as it is.
        now: the time.
        since: when it was to be released, as far as is known.
        at_once: leaves 1 and 2 out: another Argo CD may have it already, and this one may never end what it does.
    """
    if live is None:
        return Unchanged()
    if live.deletion_started is not None:  # by somebody else: Argo CD must not get to what was deployed
        return _without_finalizers(live)
    if not at_once and (end := end_of_automation(live)) is not None:
        return end
    if live.operation.in_progress and not at_once:
        deadline = since + OPERATION_PATIENCE
        if _may_end_by_itself(live.operation) and now < deadline:
            return AwaitRemoval(deadline)
        return end_of_operation(live) or AwaitRemoval(now + OPERATION_PATIENCE)
    return _without_finalizers(live) if live.finalizers else Delete(live.uid, live.version, "Background")


def _without_finalizers(live: LiveObject) -> Patch:
    return Patch({"metadata": {"resourceVersion": str(live.version), "finalizers": []}})


def _may_end_by_itself(operation: LiveOperation) -> bool:
    """Whether it is at work: what has not begun, or waits for its next attempt, another instance begins anew."""
    return operation.phase == RUNNING and not operation.has_failed


def _going(kind: ManagedKind, live: LiveObject, deadline: datetime, now: datetime) -> ObjectStep:
    if now >= deadline:
        return RemoveFinalizers(live.uid, live.version)
    finalizers = _without_hooks(kind, live)
    if finalizers != [*live.finalizers]:  # somebody else has deleted it
        return Patch({"metadata": {"resourceVersion": str(live.version), "finalizers": finalizers}})
    return end_of_operation(live) or AwaitRemoval(deadline)


def end_of_operation(live: LiveObject) -> Patch | None:
    """What ends the operation of an Application, which Argo CD would finish first; None if there is nothing to end."""
    patch = termination_patch(live.operation)
    return Patch({"metadata": {"resourceVersion": str(live.version)}} | patch) if patch else None


def end_of_automation(live: LiveObject) -> Patch | None:
    """What keeps Argo CD from syncing an Application by itself; None if it does not do that."""
    policy = dict_of(dict_of(live.owned.get("spec")).get("syncPolicy"))
    spec = {"syncPolicy": {"automated": None}}
    return Patch({"metadata": {"resourceVersion": str(live.version)}, "spec": spec}) if "automated" in policy else None


def comparison_request(live: LiveObject) -> Patch:
    """What has Argo CD compare an Application again."""
    return Patch({"metadata": {"resourceVersion": str(live.version), "annotations": {REFRESH: "normal"}}})


def _removal(kind: ManagedKind, live: LiveObject) -> ObjectStep:
    """Deletion needs the cascade finalizer, none of hooks, and our label, so that the watch sees the end of it.

    Argo CD puts a hook's finalizer on at any time before the deletion, and at none after it: the version decides.
    """
    finalizers = _without_hooks(kind, live)
    if kind.cascade_finalizer and kind.cascade_finalizer not in finalizers:
        finalizers.append(kind.cascade_finalizer)
    if finalizers == [*live.finalizers] and live.labels.get(MANAGED_BY) == MANAGER:
        return Delete(live.uid, live.version if kind.hook_finalizers else None)
    # Lists are replaced whole by a merge patch: the version makes sure that no finalizer added meanwhile is lost.
    metadata = {"resourceVersion": str(live.version), "finalizers": finalizers, "labels": OURS}
    return Patch({"metadata": metadata})


def _without_hooks(kind: ManagedKind, live: LiveObject) -> list[str]:
    return [each for each in live.finalizers if each.partition("/")[0] not in kind.hook_finalizers]


def _change(kind: ManagedKind, desired: Manifest, live: LiveObject) -> ObjectStep:
    patch = difference(kind, desired, live)
    if not patch:
        return Unchanged()
    if any(name in patch for name in kind.unchangeable):
        return Delete(live.uid)
    return Patch(_of_version(patch, live)) if _removes(patch) else Apply(_of_version(desired, live))


def _of_version(change: Manifest, live: LiveObject) -> Manifest:
    """Only of the version that it was decided on: a former owner's, which comes late, changes nothing."""
    return change | {"metadata": change.get("metadata", {}) | {"resourceVersion": str(live.version)}}


def difference(kind: ManagedKind, desired: Manifest, live: LiveObject) -> Manifest:
    """The merge patch (RFC 7386) that makes the owned part of ``live`` as desired; empty if it is."""
    meta = desired["metadata"]
    metadata = {
        name: changed
        for name, present in (("labels", live.labels), ("annotations", live.annotations))
        if (changed := _lacking(meta.get(name, {}), present))
    }
    patch = _with_values(merge_patch(live.owned, owned_part(kind, desired)), desired)
    return ({"metadata": metadata} if metadata else {}) | patch


def is_drifted(kind: ManagedKind, desired: Manifest, live: LiveObject | None) -> bool:
    """Whether the object is not as desired, or on its way out."""
    return live is None or live.deletion_started is not None or bool(difference(kind, desired, live))


def _with_values(patch: Manifest, desired: Manifest) -> Manifest:
    """What was compared by hashes is sent by value."""
    return {name: _value(change, desired.get(name)) for name, change in patch.items()}


def _value(change: Any, wanted: Any) -> Any:
    if isinstance(change, dict):
        return _with_values(change, wanted)
    return None if change is None else wanted


def merge_patch(before: Manifest, after: Manifest) -> Manifest:
    """The smallest merge patch from ``before`` to ``after``: null where something goes."""
    patch: Manifest = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := merge_patch(old, value):
                patch[name] = inner
        elif old != value:
            patch[name] = value
    return patch


def _lacking(wanted: dict[str, str], present: dict[str, str]) -> dict[str, str]:
    """Labels and annotations of others are left alone: only ours are compared."""
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def _removes(patch: Any) -> bool:
    if isinstance(patch, dict):
        return any(_removes(value) for value in patch.values())
    return patch is None
