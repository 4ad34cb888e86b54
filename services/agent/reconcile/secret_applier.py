"""Makes Secrets of clusters and repositories as their rows desire, after a check of the credentials.

A cluster Secret that is deleted stays for a short grace period while Applications use its cluster: Argo CD deletes what
an Application has deployed only while it knows the cluster. The resources of a deleted namespace disappear in any
order, so an Application may be deleted a moment after its cluster Secret. Once it is being deleted, the Secret waits
for it like any object of a later wave.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.agent.credentials.account_cleanups import AccountCleanups
from services.agent.credentials.secret_checks import SecretChecks
from services.agent.objects.live import EngineObjects, value_hash
from services.agent.objects.managed_kinds import SECRET_KIND, ObjectKey
from services.agent.reconcile.object_steps import is_drifted
from services.agent.reconcile.reconciler import Blocked, Done, InProgress, Outcome, Reconciler
from services.common.clock import Clock
from services.common.errors import Permanent
from services.common.kubernetes import Rejected
from services.common.messages import Checked, EngineResource

GRACE_PERIOD = timedelta(seconds=20)
"""Longer than the deletion of a namespace takes, but short, because the Secret may have been deleted on purpose."""

FALLBACK = timedelta(minutes=10)
"""When to requeue an object that is also queued when its account is removed."""


class SecretApplier:
    """Applies Secrets of clusters and repositories.

    A Secret that fails its check is not applied. An existing one stays until a good one replaces it.
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
        self._deleted_at: dict[ObjectKey, datetime] = {}
        """When this process first saw that the absence of a Secret is desired."""

    async def reconcile_row(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Check, then apply the composed Secret; or remove the account, then delete the Secret."""
        try:
            return await (self._remove(key, row) if row.desired == "absent" else self._compose(key, row))
        except Rejected as error:
            # An admission message may quote the object.
            raise Permanent(f"the API server refuses the Secret with status {error.status}") from None

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the Secret differs from the newest good one, or its check was not started."""
        if row.desired == "absent":
            return key in self._live
        good = self._checks.good_secret(key)
        return not self._checks.is_known(key, row) or (
            good is not None and is_drifted(SECRET_KIND, good, self._live.get(key))
        )

    def forget_row(self, key: ObjectKey) -> None:
        """Stop checks and account removals."""
        self._checks.forget_row(key)
        self._cleanups.forget_row(key)
        self._deleted_at.pop(key, None)

    async def suspend(self) -> None:
        """Stop checks and account removals."""
        self._deleted_at.clear()
        await self._checks.suspend()
        await self._cleanups.suspend()

    async def _compose(self, key: ObjectKey, row: EngineResource) -> Outcome:
        self._cleanups.forget_row(key)
        self._deleted_at.pop(key, None)
        result, good = self._checks.result_of(key, row), self._checks.good_secret(key)
        outcome: Done | InProgress = Done()
        if good is not None:
            outcome = await self._reconciler.reconcile_object(SECRET_KIND, key, good)
        if isinstance(outcome, InProgress):
            return outcome
        if result is None:
            return Blocked()
        return replace(
            outcome,
            applied=result.secret is not None,
            checked=Checked(row.digest, result.reason, result.message),
            version=f"{row.digest} {value_hash(good)}",
        )

    async def _remove(self, key: ObjectKey, row: EngineResource) -> Outcome:
        self._checks.forget_row(key)
        if (end := self._end_of_grace_period(key)) is not None:
            return InProgress(end)
        if not self._cleanups.is_done(key, row):
            return InProgress(self._clock.now() + FALLBACK)
        outcome = await self._reconciler.reconcile_object(SECRET_KIND, key, None)
        if isinstance(outcome, Done):
            outcome = replace(outcome, forced=outcome.forced or self._cleanups.was_forced(key))
        return outcome

    def _end_of_grace_period(self, key: ObjectKey) -> datetime | None:
        """Until when the Secret ``key`` stays; None if it may be deleted. The first call starts the grace period."""
        end = self._deleted_at.setdefault(key, self._clock.now()) + GRACE_PERIOD
        return end if self._clock.now() < end and key in self._live and self._live.is_cluster_used(key.name) else None
