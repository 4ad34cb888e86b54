"""Makes an object as its row desires. There is an applier for each kind of row, called by the instance's workers.

Applications and AppProjects are their rows' manifests. Secrets are applied in ``secret_applier``; syncs, which are a
field of an Application, in ``sync_applier``.
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
"""Whether the log has the result of the run of an Application that is released, see ``sync_applier``."""


class Applier(Protocol):
    """Reconciles one kind of row."""

    async def reconcile_row(self, key: ObjectKey, row: EngineResource) -> Outcome:
        """Make the object as ``row`` desires. Raises Permanent, Retry, Wait as the reconciler does."""

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether there is anything to do. Called for each event of a watch. Raises Permanent."""

    def forget_row(self, key: ObjectKey) -> None:
        """Forget a row of which nothing is desired any more."""

    async def suspend(self) -> None:
        """Stop: the instance is no longer ours. When this returns, no task is running."""


class ObjectApplier:
    """Applies Applications and AppProjects."""

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
        """Make the object as ``row`` desires."""
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
        """Request a comparison of an Application that is refused because of an earlier state of its AppProject.

        If Argo CD does not see the new state then, either, the Application's next event leads here again, after the
        delay of repairs.
        """
        if self._is_refusal_stale(key):
            log.info("compared with a stale AppProject; to be compared again", namespace=key.namespace, name=key.name)
            await self._reconciler.request_comparison(KINDS[key.kind], key)

    def _is_refusal_stale(self, key: ObjectKey) -> bool:
        """Whether Argo CD saw a stale AppProject, and was not asked to compare again."""
        return saw_stale_project(key, self._live) and REFRESH not in self._live[key].annotations

    async def _reconcile_permitted(self, kind: ManagedKind, key: ObjectKey, desired: Manifest | None) -> Outcome:
        """Reconcile as the reconciler does.

        If rights are missing, operators have to grant them, and tenants see why.
        """
        try:
            return await self._reconciler.reconcile_object(kind, key, desired)
        except Rejected as error:
            if not error.is_forbidden:
                raise
            log.warning("forbidden", kind=key.kind, namespace=key.namespace, name=key.name, error=str(error))
            raise RefusedInput(deployment.ENGINE_NOT_ACCEPTED.text()) from error

    async def remove_object(self, key: ObjectKey) -> Outcome:
        """Delete an object of any kind that no row desires."""
        return await self._reconciler.reconcile_object(KINDS[key.kind], key, None)

    def has_drifted(self, key: ObjectKey, row: EngineResource) -> bool:
        """Whether the object differs from ``row``, or must not exist."""
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
        """Stop asking about repositories, and forget pending releases."""
        self._waiting.clear()
        self._reconciler.suspend()
        await self._repositories.suspend()
        await self._isolation.suspend()

    def _desired(self, row: EngineResource) -> Manifest:
        """The desired object. An AppProject does not list repositories that its tenant is denied. Raises Permanent."""
        desired = self._engine.served_part(desired_object(row))
        require_tenants_destinations(desired, self._is_platform)
        return self._isolation.allowed_project(row, desired) if row.kind == RowKind.APP_PROJECT else desired

    async def _has_to_wait(self, key: ObjectKey, row: EngineResource, desired: Manifest) -> bool:
        """Whether a background check has to end first.

        Raises Permanent if the repository is denied, after ending Argo CD's operation.
        """
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
        """Whether the Application may read ``url``, as :meth:`RepositoryIsolation.may_read`.

        If not, its automatic sync is ended. Argo CD itself does not sync an Application with a repository that it
        cannot read without a login.
        """
        if self._isolation.is_denied(row.lane, url):
            await self._reconciler.end_operation(ROW_KINDS[row.kind], key)
            await self._reconciler.end_automation(ROW_KINDS[row.kind], key)
        return self._isolation.may_read(key, row, url)
