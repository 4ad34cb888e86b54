"""Makes one object as its row desires: one applier for each kind of row. Called by the instance's workers.

An Application or AppProject is the row's manifest. A Secret is composed from the row by a credential check, which runs
in the background. (Syncs, a field of an Application, have their own applier in ``sync``.)
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from services.agent.credentials.account_cleanups import AccountCleanups
from services.agent.credentials.grace_periods import GracePeriods
from services.agent.credentials.secret_checks import SecretChecks
from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.desired import desired_object, source_url
from services.agent.objects.live import EngineObjects, fingerprint
from services.agent.objects.managed_kinds import KINDS, ROW_KINDS, SECRET_KIND, ObjectKey
from services.agent.private_repositories import RepositoryIsolation
from services.agent.private_repositories.allowed_repositories import AllowedRepositories
from services.agent.reconcile.object_steps import difference
from services.agent.reconcile.outcomes import Blocked, Done, InProgress, Outcome
from services.agent.reconcile.reconciler import Reconciler
from services.common.clock import Clock
from services.common.errors import Permanent
from services.common.kubernetes import APPLICATION, Manifest, Rejected
from services.common.messages import Checked, EngineResource, RowKind

A_WHILE = timedelta(minutes=10)
"""When to requeue an object that is queued anyway when its account is removed."""


class Applier(Protocol):
    """Reconciles one kind of row."""

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Make the object as ``row`` desires. Raises Permanent, Retry, Wait as the reconciler does."""

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether there is anything to do; asked for each event of a watch. Raises Permanent."""

    def forget(self, key: ObjectKey) -> None:
        """Nothing is desired of ``key`` any more."""

    async def suspend(self) -> None:
        """The instance is no longer ours: when this returns nothing is under way."""


class ObjectApplier:
    """Applications and AppProjects."""

    def __init__(
        self,
        reconciler: Reconciler,
        live: EngineObjects,
        repositories: AllowedRepositories,
        waiting_applications: WaitingApplications,
        isolation: RepositoryIsolation,
    ) -> None:
        self._reconciler, self._live, self._isolation = reconciler, live, isolation
        self._repositories, self._waiting = repositories, waiting_applications

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Bring the object to ``row``."""
        desired = self._desired(row) if row.desired == "present" else None
        if desired is None:
            self._repositories.forget(key)
        elif await self._has_to_wait(key, row, desired):
            return Blocked()
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
            return is_drifted(self._live, key, None)
        desired = self._desired(row)
        is_allowed = key.kind != APPLICATION.kind or (
            self._repositories.is_allowed(key) and not self._isolation.withholds(row.lane, source_url(desired))
        )
        return not is_allowed or is_drifted(self._live, key, desired)

    def forget(self, key: ObjectKey) -> None:
        """Forget the repository that the object named."""
        self._repositories.forget(key)

    async def suspend(self) -> None:
        """Stop asking about repositories."""
        self._waiting.clear()
        await self._repositories.suspend()
        await self._isolation.suspend()

    def _desired(self, row: EngineResource) -> Manifest:
        """The desired object: an AppProject lists no repository that its tenant is denied."""
        desired = desired_object(row)
        return self._isolation.confined(row, desired) if row.kind == RowKind.APP_PROJECT else desired

    async def _has_to_wait(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether a background check has to end first. Raises Permanent, after ending Argo CD's operation on it."""
        try:
            waits = key.kind == APPLICATION.kind and not self._repositories.admits(key, row, desired)
            if waits or self._waiting.keeps(key, row, desired):
                return True
            if key.kind == APPLICATION.kind:
                self._isolation.require_login(row, source_url(desired))
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
        live: EngineObjects,
        checks: SecretChecks,
        cleanups: AccountCleanups,
        clock: Clock,
    ) -> None:
        self._reconciler, self._live, self._clock = reconciler, live, clock
        self._checks, self._cleanups = checks, cleanups
        self._grace_periods = GracePeriods(live, clock)

    async def apply(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Check, then apply the composed Secret; or remove the account, then delete the Secret."""
        try:
            return await (self._remove(key, row) if row.desired == "absent" else self._hold(key, row))
        except Rejected as error:
            # An admission message may quote the object.
            raise Permanent(f"the API server refuses the Secret with status {error.status}") from None

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the Secret differs from the newest good one, or its check was not started."""
        if row.desired == "absent":
            return key in self._live
        good = self._checks.good(key)
        return not self._checks.is_known(key, row) or (good is not None and is_drifted(self._live, key, good))

    def forget(self, key: ObjectKey) -> None:
        """Stop checks and account removals."""
        self._checks.forget(key)
        self._cleanups.forget(key)
        self._grace_periods.forget(key)

    async def suspend(self) -> None:
        """Stop checks and account removals."""
        self._grace_periods.clear()
        await self._checks.suspend()
        await self._cleanups.suspend()

    async def _hold(self, key: ObjectKey, row: EngineResource) -> Outcome:
        self._cleanups.forget(key)
        self._grace_periods.forget(key)
        result, good = self._checks.result(key, row), self._checks.good(key)
        outcome: Done | InProgress = Done()
        if good is not None:
            outcome = await self._reconciler.reconcile(SECRET_KIND, key, good)
        if isinstance(outcome, InProgress):
            return outcome
        if result is None:
            return Blocked()
        return replace(
            outcome,
            applied=result.secret is not None,
            checked=Checked(row.digest, result.reason, result.message),
            version=f"{row.digest} {fingerprint(good)}",
        )

    async def _remove(self, key: ObjectKey, row: EngineResource) -> Outcome:
        self._checks.forget(key)
        if (end := self._grace_periods.end(key)) is not None:
            return InProgress(end)
        if not self._cleanups.is_done(key, row):
            return InProgress(self._clock.now() + A_WHILE)
        outcome = await self._reconciler.reconcile(SECRET_KIND, key, None)
        if isinstance(outcome, Done):
            outcome = replace(outcome, forced=outcome.forced or self._cleanups.was_forced(key))
        return outcome


def is_drifted(live: EngineObjects, key: ObjectKey, desired: Manifest | None) -> bool:
    """Whether the object differs from ``desired``; None: it shall not exist."""
    found = live.get(key)
    if desired is None or found is None:
        return (desired is None) != (found is None)
    return found.deletion_started is not None or bool(difference(KINDS[key.kind], desired, found))
