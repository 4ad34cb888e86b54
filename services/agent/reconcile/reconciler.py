"""Reconciles one object: asks ``object_steps`` for the next step and executes it, until nothing is left to do.

Called by the appliers. It makes no call if the object is as desired, occupies no worker during a deletion, and changes
nothing if it runs twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.agent import SERVICE
from services.agent.objects.forbidden_calls import ForbiddenCalls
from services.agent.objects.live import EngineObjects, LiveObject
from services.agent.objects.managed_kinds import ManagedKind, ObjectKey
from services.agent.reconcile.object_steps import (
    Apply,
    AwaitRemoval,
    Create,
    Delete,
    ObjectStep,
    Patch,
    RemoveFinalizers,
    Unchanged,
    comparison_request,
    end_of_automation,
    end_of_operation,
    next_step,
    release_step,
)
from services.common.clock import Clock
from services.common.errors import Permanent, Wait
from services.common.kubernetes import AlreadyExists, KubeClient, Manifest, NotFound
from services.common.messages import Checked
from services.common.ownership import AGENT_FIELD_MANAGER
from services.common.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do."""

    changed: bool = False
    """Whether a call was necessary."""
    created: bool = False
    forced: bool = False
    """Whether the deletion was forced: finalizers were removed, or something was left behind on another cluster."""
    applied: bool = True
    """Whether the object is as desired; False if the row describes no content, or failed its check."""
    is_provisional: bool = False
    """Whether the check of its repository is still running: a failure may follow."""
    checked: Checked | None = None
    """Result of the credential check, for rows that have one."""
    is_gone: bool = False
    """Whether the object was released, as desired."""
    version: str = ""
    """Version of what was applied, if the row's digest does not identify it."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """A deletion is in progress. Requeue the object at ``deadline``."""

    deadline: datetime


@dataclass(frozen=True, slots=True)
class Blocked:
    """The object waits for something that queues it again."""


Outcome = Done | InProgress | Blocked


MAX_STEPS = 6
"""Most steps of one reconciliation. Create, conflict, read, apply and compare are five; more means that the API server
changes what we send."""

REPORT_PATIENCE = timedelta(seconds=1)
"""After how long to check again whether a report was delivered."""


class Reconciler:
    """Reconciles the objects of one engine instance."""

    def __init__(self, cluster: KubeClient, live: EngineObjects, clock: Clock, deletion_timeout: timedelta) -> None:
        """``deletion_timeout``: how long a deletion may take before it is forced."""
        self._cluster, self._live, self._clock, self._deletion_timeout = cluster, live, clock, deletion_timeout
        self._stripped: set[ObjectKey] = set()
        self._released_since: dict[ObjectKey, datetime] = {}
        self._forbidden = ForbiddenCalls(clock)

    async def reconcile_object(self, kind: ManagedKind, key: ObjectKey, desired: Manifest | None) -> Done | InProgress:
        """Make ``key`` as ``desired`` (None: delete it).

        Raises Permanent (the API server refuses it), Retry (it does not answer), Wait (its namespace is missing, or its
        rights have been missing for a short time).
        """
        self._released_since.pop(key, None)
        return await self._reconcile(
            kind,
            key,
            lambda live: next_step(kind, desired, live, self._clock.now(), self._deletion_timeout),
            is_wanted=desired is not None,
        )

    async def release_object(
        self, kind: ManagedKind, key: ObjectKey, is_reported: Callable[[], bool], *, at_once: bool
    ) -> Done | InProgress:
        """Release ``key``: the Application is deleted, and what it has deployed stays.

        Raises as :meth:`reconcile_object`.

        ``is_reported`` returns whether the log has what the object shows of its sync run. It is asked before each step,
        and each step names the version that was read, so a change in between causes a conflict. ``at_once``: do not
        wait for its operation, because its Argo CD is down, or was. The patience with an operation begins with the
        first call, and anew after a restart or :meth:`suspend`.
        """
        since = self._released_since.setdefault(key, self._clock.now())

        def step_of(live: LiveObject | None) -> ObjectStep:
            now = self._clock.now()
            if not is_reported():
                return AwaitRemoval(now + REPORT_PATIENCE)
            return release_step(live, now, since, at_once=at_once)

        outcome = await self._reconcile(kind, key, step_of, is_wanted=False)
        if not isinstance(outcome, Done):
            return outcome
        self._released_since.pop(key, None)
        return replace(outcome, is_gone=True)

    def suspend(self) -> None:
        """Forget pending releases: another agent continues them."""
        self._released_since.clear()

    async def _reconcile(
        self, kind: ManagedKind, key: ObjectKey, step_of: Callable[[LiveObject | None], ObjectStep], *, is_wanted: bool
    ) -> Done | InProgress:
        changed = created = False
        for _ in range(MAX_STEPS):
            step = step_of(self._live.get(key))
            match step:
                case AwaitRemoval(deadline):
                    return InProgress(deadline)
                case Unchanged() if is_wanted:
                    return self._done(kind, key, changed, created)
                case Unchanged():
                    # The watch sees only what bears our label: what shall be gone is asked for by name once.
                    if not await self._forbidden.tolerate(key, self._live.read_object(self._cluster, key)):
                        return self._done(kind, key, changed)
                case _:
                    changed, created = True, created or isinstance(step, Create)
                    if await self._act(kind, key, step):
                        return InProgress(self._clock.now() + self._deletion_timeout)
        raise Permanent(f"the API server keeps changing {key.kind} {key.name}: it never becomes as desired")

    async def end_operation(self, kind: ManagedKind, key: ObjectKey) -> None:
        """End the operation that Argo CD runs for an Application. Raises as :meth:`reconcile_object`, and Conflict."""
        await self._patch(kind, key, end_of_operation)

    async def end_automation(self, kind: ManagedKind, key: ObjectKey) -> None:
        """End automatic syncs of an Application. Raises as :meth:`end_operation`."""
        await self._patch(kind, key, end_of_automation)

    async def request_comparison(self, kind: ManagedKind, key: ObjectKey) -> None:
        """Request a comparison of an Application. Raises as :meth:`end_operation`."""
        await self._patch(kind, key, comparison_request)

    async def _patch(self, kind: ManagedKind, key: ObjectKey, step_of: Callable[[LiveObject], Patch | None]) -> None:
        live = self._live.get(key)
        step = step_of(live) if live is not None else None
        if step is not None:
            await self._act(kind, key, step)

    def _done(self, kind: ManagedKind, key: ObjectKey, changed: bool, created: bool = False) -> Done:
        if not changed:
            _count(kind, "skipped")
        forced = key in self._stripped
        self._stripped.discard(key)
        return Done(changed, created, forced)

    async def _act(self, kind: ManagedKind, key: ObjectKey, step: ObjectStep) -> bool:
        """Execute ``step``. Returns True if the object is being deleted now; the watch will show the end."""
        return await self._forbidden.tolerate(key, self._attempt(kind, key, step))

    async def _attempt(self, kind: ManagedKind, key: ObjectKey, step: ObjectStep) -> bool:
        try:
            return await self._call(kind, key, step)
        except AlreadyExists:
            # Without our label, or younger than our watch.
            await self._live.read_object(self._cluster, key)
        except NotFound as error:
            live = self._live.get(key)
            if live is None:
                raise Wait(f"namespace {key.namespace} is missing: {error}") from error
            self._live.remove_object(key, live.uid)
        return False

    async def _call(self, kind: ManagedKind, key: ObjectKey, step: ObjectStep) -> bool:
        resource, known = kind.resource, self._live.get(key)
        answer: Manifest | None = None
        match step:
            case Create(manifest):
                _count(kind, "create")
                answer = await self._cluster.create_object(resource, manifest, field_manager=AGENT_FIELD_MANAGER)
            case Apply(manifest):
                _count(kind, "apply")
                answer = await self._cluster.apply_object(resource, manifest, field_manager=AGENT_FIELD_MANAGER)
            case Patch(patch):
                _count(kind, "apply")
                answer = await self._cluster.patch_object(
                    resource, key.namespace, key.name, patch, field_manager=AGENT_FIELD_MANAGER
                )
            case RemoveFinalizers(uid, version):
                await self._strip(kind, key, uid, version)
            case Delete(uid, version, propagation):
                _count(kind, "delete")
                await self._cluster.delete_object(
                    resource,
                    key.namespace,
                    key.name,
                    propagation=propagation or kind.propagation,
                    uid=uid,
                    version=version,
                )
                return True
        if answer is not None:
            self._live.put_answer(key.kind, answer, known)
        return False

    async def _strip(self, kind: ManagedKind, key: ObjectKey, uid: str, version: int) -> None:
        """Remove all finalizers: the API server then deletes the object at once."""
        metadata = {"resourceVersion": str(version), "uid": uid, "finalizers": None}
        _count(kind, "apply")
        await self._cluster.patch_object(
            kind.resource, key.namespace, key.name, {"metadata": metadata}, field_manager=AGENT_FIELD_MANAGER
        )
        self._live.remove_object(key, uid)
        self._stripped.add(key)
        metrics.FORCED_DELETIONS.labels(SERVICE, key.kind).inc()


def _count(kind: ManagedKind, verb: str) -> None:
    metrics.KUBERNETES_WRITES.labels(SERVICE, kind.resource.kind, verb).inc()
