"""Makes one object as its row desires: one applier for each kind of row. Called by the instance's workers.

An Application or AppProject is the row's manifest. Secrets have their own applier in ``secret_applier``, syncs, a field
of an Application, in ``sync_applier``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import structlog

from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.desired_objects import desired_object, is_released, is_released_at_once, source_url
from services.agent.objects.engine_state import EngineState
from services.agent.objects.live import EngineObjects, value_hash
from services.agent.objects.managed_kinds import KINDS, ROW_KINDS, ManagedKind, ObjectKey
from services.agent.objects.reconciliation import REFRESH
from services.agent.objects.stale_project import saw_stale_project
from services.agent.objects.tenant_destinations import IsPlatform, require_tenants_destinations
from services.agent.private_repositories.allowed_repositories import AllowedRepositories
from services.agent.private_repositories.isolation import RepositoryIsolation
from services.agent.reconcile.object_steps import is_drifted
from services.agent.reconcile.reconciler import Blocked, Done, Outcome, Reconciler
from services.common.errors import Permanent, RefusedInput
from services.common.kubernetes import APPLICATION, Manifest, Rejected
from services.common.messages import EngineResource, RowKind
from services.kinds.gitops_deployment import catalogue as deployment

log = structlog.get_logger(__name__)

EnsureReported = Callable[[ObjectKey], bool]
"""Whether the log has what has become of the run of an Application that is given up, see ``sync_applier``."""


class Applier(Protocol):
    """Reconciles one kind of row."""

    async def reconcile_row(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Make the object as ``row`` desires. Raises Permanent, Retry, Wait as the reconciler does."""

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether there is anything to do; asked for each event of a watch. Raises Permanent."""

    def forget_row(self, key: ObjectKey) -> None:
        """Nothing is desired of ``key`` any more."""

    async def suspend(self) -> None:
        """The instance is no longer ours: when this returns no task is running."""


class ObjectApplier:
    """Applications and AppProjects."""

    def __init__(
        self,
        reconciler: Reconciler,
        live: EngineObjects,
        repositories: AllowedRepositories,
        waiting_applications: WaitingApplications,
        isolation: RepositoryIsolation,
        *,
        engine: EngineState,
        is_platform: IsPlatform,
        ensure_reported: EnsureReported,
    ) -> None:
        self._reconciler, self._live, self._isolation = reconciler, live, isolation
        self._engine, self._is_platform, self._ensure_reported = engine, is_platform, ensure_reported
        self._repositories, self._waiting = repositories, waiting_applications

    async def reconcile_row(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Bring the object to ``row``."""
        if row.kind == RowKind.APPLICATION and is_released(row):
            self._repositories.forget_application(key)
            return await self._reconciler.release_object(
                ROW_KINDS[row.kind],
                key,
                partial(self._ensure_reported, key),
                at_once=is_released_at_once(row),
            )
        desired = self._desired(row) if row.desired == "present" else None
        if desired is None:
            self._repositories.forget_application(key)
        elif await self._has_to_wait(key, row, desired):
            return Blocked()
        outcome = await self._reconcile_permitted(ROW_KINDS[row.kind], key, desired)
        if isinstance(outcome, Done) and desired is not None:
            await self._end_stale_refusal(key)
        if isinstance(outcome, Done) and row.kind == RowKind.APP_PROJECT:
            outcome = replace(outcome, version=f"{row.digest} {value_hash(desired)}")
        elif isinstance(outcome, Done):
            outcome = replace(outcome, is_provisional=not self._repositories.is_checked(key))
        return outcome

    async def _end_stale_refusal(self, key: ObjectKey) -> None:
        """Have Argo CD look again at an Application that it refuses for what its AppProject was before.

        If it does not see the new one then either, the Application's next event leads here, after the delay of repairs.
        """
        if self._is_refusal_stale(key):
            log.info("compared with a stale AppProject; to be compared again", namespace=key.namespace, name=key.name)
            await self._reconciler.request_comparison(KINDS[key.kind], key)

    def _is_refusal_stale(self, key: ObjectKey) -> bool:
        """Whether it is, and Argo CD has not been asked yet."""
        return saw_stale_project(key, self._live) and REFRESH not in self._live[key].annotations

    async def _reconcile_permitted(self, kind: ManagedKind, key: ObjectKey, desired: Manifest | None) -> Outcome:
        """As the reconciler does it. Rights that are missing are operators' to mend, and so tenants are told."""
        try:
            return await self._reconciler.reconcile_object(kind, key, desired)
        except Rejected as error:
            if not error.is_forbidden:
                raise
            log.warning("forbidden", kind=key.kind, namespace=key.namespace, name=key.name, error=str(error))
            raise RefusedInput(deployment.ENGINE_NOT_ACCEPTED.text()) from error

    async def remove_object(self, key: ObjectKey) -> Outcome:
        """Delete an object, of any kind, that no row desires."""
        return await self._reconciler.reconcile_object(KINDS[key.kind], key, None)

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the object is not as ``row`` says, or must not be."""
        if row.desired == "absent" or is_released(row):
            return key in self._live
        desired = self._desired(row)
        is_refused = key.kind == APPLICATION.kind and (
            self._repositories.is_refused(key) or self._isolation.is_denied(row.lane, source_url(desired))
        )
        is_as_desired = not is_drifted(KINDS[key.kind], desired, self._live.get(key))
        return is_refused or not is_as_desired or self._is_refusal_stale(key)

    def forget_row(self, key: ObjectKey) -> None:
        """Forget the repository that the object named."""
        self._repositories.forget_application(key)

    async def suspend(self) -> None:
        """Stop asking about repositories, and forget what was begun."""
        self._waiting.clear()
        self._reconciler.suspend()
        await self._repositories.suspend()
        await self._isolation.suspend()

    def _desired(self, row: EngineResource) -> Manifest:
        """The desired object: an AppProject lists no repository that its tenant is denied. Raises Permanent."""
        desired = self._engine.served_part(desired_object(row))
        require_tenants_destinations(desired, self._is_platform)
        return self._isolation.allowed_project(row, desired) if row.kind == RowKind.APP_PROJECT else desired

    async def _has_to_wait(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether a background check has to end first. Raises Permanent, after ending Argo CD's operation on it."""
        try:
            if key.kind == APPLICATION.kind and is_drifted(KINDS[key.kind], desired, self._live.get(key)):
                self._engine.require_acceptance(deployment.ENGINE_NOT_ACCEPTED)
            waits = key.kind == APPLICATION.kind and not self._repositories.may_apply(key, row, desired)
            if waits or self._waiting.has_to_wait(key, row, desired):
                return True
        except Permanent:
            await self._reconciler.end_operation(ROW_KINDS[row.kind], key)
            raise
        return key.kind == APPLICATION.kind and not await self._ensure_readable(key, row, source_url(desired))

    async def _ensure_readable(self, key: ObjectKey, row: EngineResource, url: str) -> bool:
        """As :meth:`RepositoryIsolation.may_read`; an Application that may not is no longer synced, to anything.

        Argo CD does not sync one either that it cannot read without a login.
        """
        if self._isolation.is_denied(row.lane, url):
            await self._reconciler.end_operation(ROW_KINDS[row.kind], key)
            await self._reconciler.end_automation(ROW_KINDS[row.kind], key)
        return self._isolation.may_read(key, row, url)
