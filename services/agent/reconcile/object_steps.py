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
    """The object is as desired."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create the object: it does not exist."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply on the server side: something is missing or different."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch: something must be removed, or deletion needs something first.

    Server-side apply cannot remove what another manager owns, nor what our own POST owns (a create is recorded as an
    Update of the same manager name, an apply as an Apply). A merge patch removes fields by name, whoever owns them.
    """

    patch: Manifest


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete: the object exists, and its deletion was not requested yet."""

    uid: str
    version: int | None = None
    """Delete this version only, because another one would lose what matters; None: any version."""
    propagation: Literal["Background", "Foreground", ""] = ""
    """Empty: the default of its kind."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizers:
    """The deletion deadline has passed: remove the finalizers."""

    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class AwaitRemoval:
    """Wait: the object is being deleted. Requeue it on a watch event, and no later than at ``deadline``."""

    deadline: datetime


OPERATION_PATIENCE = timedelta(seconds=60)
"""How long the operation of an Application that is released may go on. Then it is ended, so that another instance can
take over."""

ObjectStep = Unchanged | Create | Apply | Patch | Delete | RemoveFinalizers | AwaitRemoval


def next_step(
    kind: ManagedKind, desired: Manifest | None, live: LiveObject | None, now: datetime, deletion_timeout: timedelta
) -> ObjectStep:
    """The next step; ``desired`` None: the object should not exist. After the timeout a deletion is forced."""
    if live is None:
        return Unchanged() if desired is None else Create(desired)
    if live.deletion_started is not None:
        # Desired or not: what is being deleted has to be gone before it can be made again.
        return _going(kind, live, live.deletion_started + deletion_timeout, now)
    return _removal(kind, live) if desired is None else _change(kind, desired, live)


def release_step(live: LiveObject | None, now: datetime, since: datetime, *, at_once: bool = False) -> ObjectStep:
    """The next step of a release: the Application is deleted, and everything that it has deployed stays.

    1. Automatic syncs are ended.
    2. The running operation ends, or is ended.
    3. The finalizers are removed, so Argo CD has nothing left to do.
    4. The Application is deleted in the version that was read: so nothing has begun since.

    Args:
        live: the Application as it is.
        now: the time.
        since: when the release began, as far as is known.
        at_once: skips 1 and 2: another Argo CD may have the Application, and this one may never end its operation.
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
    """Whether the operation runs.

    One that has not begun, or waits for its next attempt, is repeated by the next instance.
    """
    return operation.phase == RUNNING and not operation.has_failed


def _going(kind: ManagedKind, live: LiveObject, deadline: datetime, now: datetime) -> ObjectStep:
    if now >= deadline:
        return RemoveFinalizers(live.uid, live.version)
    finalizers = _without_hooks(kind, live)
    if finalizers != [*live.finalizers]:  # somebody else has deleted it
        return Patch({"metadata": {"resourceVersion": str(live.version), "finalizers": finalizers}})
    return end_of_operation(live) or AwaitRemoval(deadline)


def end_of_operation(live: LiveObject) -> Patch | None:
    """The patch that ends the operation of an Application, which delays its deletion; None if there is none."""
    patch = termination_patch(live.operation)
    return Patch({"metadata": {"resourceVersion": str(live.version)}} | patch) if patch else None


def end_of_automation(live: LiveObject) -> Patch | None:
    """The patch that ends automatic syncs of an Application; None if it has none."""
    policy = dict_of(dict_of(live.owned.get("spec")).get("syncPolicy"))
    spec = {"syncPolicy": {"automated": None}}
    return Patch({"metadata": {"resourceVersion": str(live.version)}, "spec": spec}) if "automated" in policy else None


def comparison_request(live: LiveObject) -> Patch:
    """The patch that requests a comparison of an Application."""
    return Patch({"metadata": {"resourceVersion": str(live.version), "annotations": {REFRESH: "normal"}}})


def _removal(kind: ManagedKind, live: LiveObject) -> ObjectStep:
    """Prepare the deletion: add the cascade finalizer and our label, by which the watch sees the end; remove hooks.

    Argo CD may add a hook's finalizer until the deletion, but not after it. So the deletion names the version.
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
    """``change``, bound to the version on which it was decided: a late change of a former owner has no effect."""
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
    """Whether the object is not as desired, or is being deleted."""
    return live is None or live.deletion_started is not None or bool(difference(kind, desired, live))


def _with_values(patch: Manifest, desired: Manifest) -> Manifest:
    """``patch`` with values in place of the hashes that were compared."""
    return {name: _value(change, desired.get(name)) for name, change in patch.items()}


def _value(change: Any, wanted: Any) -> Any:
    if isinstance(change, dict):
        return _with_values(change, wanted)
    return None if change is None else wanted


def merge_patch(before: Manifest, after: Manifest) -> Manifest:
    """The smallest merge patch from ``before`` to ``after``, with null for each removed field."""
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
    """Our missing labels or annotations. Those of others are ignored."""
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def _removes(patch: Any) -> bool:
    if isinstance(patch, dict):
        return any(_removes(value) for value in patch.values())
    return patch is None
