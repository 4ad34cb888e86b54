"""Brings one object to its row: one applier for each sort of row. Called by the instance's workers.

Objects come from the row as they are. Secrets are composed of it by somebody else, beside the pool. (Syncs are in
``syncs``: they are a field of an Application, not an object.)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from services.agent.clock import Clock
from services.agent.compositions import Compositions
from services.agent.disposals import Disposals
from services.agent.kinds import KINDS, ROW_KINDS, SECRET_KIND
from services.agent.live_objects import LiveObjects
from services.agent.notices import Notices
from services.agent.objects import ObjectKey, desired_object, fingerprint, source_url
from services.agent.outcomes import Aside, Done, Going, Outcome
from services.agent.plan import difference
from services.agent.private_repositories import Fence
from services.agent.reconciler import Reconciler
from services.agent.repositories import Repositories
from services.agent.set_aside import SetAside
from services.common.errors import Permanent
from services.common.kube import APPLICATION, Manifest, Refused
from services.common.messages import Checked, EngineResource, RowKind

A_WHILE = timedelta(minutes=10)
"""When to look again at what will be marked anyway."""


class Applier(Protocol):
    """One sort of row."""

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Bring the object to ``row``. Raises Permanent, Retry, Wait as the reconciler does."""

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether there is anything to do; asked for each event of a watch. Raises Permanent."""

    def forget(self, key: ObjectKey) -> None:
        """Nothing is desired of ``key`` any more."""

    async def suspend(self) -> None:
        """The instance is no longer ours: when this returns nothing is under way."""


class ObjectApplier:
    """Applications and AppProjects."""

    def __init__(
        self, reconciler: Reconciler, live: LiveObjects, repositories: Repositories, set_aside: SetAside, fence: Fence
    ) -> None:
        self._reconciler, self._live, self._fence = reconciler, live, fence
        self._repositories, self._set_aside = repositories, set_aside

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Bring the object to ``row``."""
        desired = self._desired(row) if row.desired == "present" else None
        if desired is None:
            self._repositories.forget(key)
        elif await self._has_to_wait(key, row, desired):
            return Aside()
        outcome = await self._reconciler.reconcile(ROW_KINDS[row.kind], key, desired)
        if isinstance(outcome, Done) and row.kind == RowKind.APP_PROJECT:
            outcome = replace(outcome, version=f"{row.digest} {fingerprint(desired)}")
        return outcome

    async def remove(self, key: ObjectKey) -> Outcome:
        """Delete an object, of any kind, that no row desires."""
        return await self._reconciler.reconcile(KINDS[key.kind], key, None)

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the object is not as ``row`` says, or must not be."""
        if row.desired == "absent":
            return differs(self._live, key, None)
        desired = self._desired(row)
        is_settled = key.kind != APPLICATION.kind or (
            self._repositories.is_settled(key) and not self._fence.withholds(row.lane, source_url(desired))
        )
        return not is_settled or differs(self._live, key, desired)

    def forget(self, key: ObjectKey) -> None:
        """Its repository is of no interest any more."""
        self._repositories.forget(key)

    async def suspend(self) -> None:
        """Stop asking about repositories."""
        self._set_aside.clear()
        await self._repositories.suspend()
        await self._fence.suspend()

    def _desired(self, row: EngineResource) -> Manifest:
        """As it shall be: an AppProject is what the row says, without what its tenant is kept from."""
        desired = desired_object(row)
        return self._fence.confined(row, desired) if row.kind == RowKind.APP_PROJECT else desired

    async def _has_to_wait(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """For what is found out beside the pool. Raises Permanent, after what Argo CD does for it has been ended."""
        try:
            waits = key.kind == APPLICATION.kind and not self._repositories.admits(key, row, desired)
            if waits or self._set_aside.keeps(key, row, desired):
                return True
            if key.kind == APPLICATION.kind:
                self._fence.require_login(row, source_url(desired))
        except Permanent:
            await self._reconciler.end_operation(ROW_KINDS[row.kind], key)
            raise
        return False


class SecretApplier:
    """Secrets of clusters and repositories.

    One that fails its check is not applied; one that is there already stays until a good one replaces it.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        live: LiveObjects,
        compositions: Compositions,
        disposals: Disposals,
        clock: Clock,
    ) -> None:
        self._reconciler, self._live, self._clock = reconciler, live, clock
        self._compositions, self._disposals = compositions, disposals
        self._notices = Notices(live, clock)

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Compose, then hold; or dispose, then delete."""
        try:
            return await (self._remove(key, row) if row.desired == "absent" else self._hold(key, row))
        except Refused as error:
            # An admission message may quote the object.
            raise Permanent(f"the API server refuses the Secret with status {error.status}") from None

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the Secret is not the newest good one, or nobody has begun to compose it."""
        if row.desired == "absent":
            return key in self._live
        good = self._compositions.good(key)
        return not self._compositions.is_known(key, row) or (good is not None and differs(self._live, key, good))

    def forget(self, key: ObjectKey) -> None:
        """Stop composing and disposing."""
        self._compositions.forget(key)
        self._disposals.forget(key)
        self._notices.forget(key)

    async def suspend(self) -> None:
        """Stop composing and disposing."""
        self._notices.clear()
        await self._compositions.suspend()
        await self._disposals.suspend()

    async def _hold(self, key: ObjectKey, row: EngineResource) -> Outcome:
        self._disposals.forget(key)
        self._notices.forget(key)
        composition, good = self._compositions.outcome(key, row), self._compositions.good(key)
        outcome: Done | Going = Done()
        if good is not None:
            outcome = await self._reconciler.reconcile(SECRET_KIND, key, good)
        if isinstance(outcome, Going):
            return outcome
        if composition is None:
            return Aside()
        return replace(
            outcome,
            applied=composition.secret is not None,
            checked=Checked(row.digest, composition.reason, composition.message),
            version=f"{row.digest} {fingerprint(good)}",
        )

    async def _remove(self, key: ObjectKey, row: EngineResource) -> Outcome:
        self._compositions.forget(key)
        if (end := self._notices.end(key)) is not None:
            return Going(end)
        if not self._disposals.is_done(key, row):
            return Going(self._clock.now() + A_WHILE)
        outcome = await self._reconciler.reconcile(SECRET_KIND, key, None)
        if isinstance(outcome, Done):
            outcome = replace(outcome, forced=outcome.forced or self._disposals.was_forced(key))
        return outcome


def differs(live: LiveObjects, key: ObjectKey, desired: Manifest | None) -> bool:
    """Whether the object is not as desired; None: it shall not be there."""
    found = live.get(key)
    if desired is None or found is None:
        return (desired is None) != (found is None)
    return found.deletion_started is not None or bool(difference(KINDS[key.kind], desired, found))
