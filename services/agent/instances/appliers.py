"""Puts the appliers of an instance together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from services.agent.credentials.account_cleanups import AccountCleanups
from services.agent.credentials.check_result import Checker
from services.agent.credentials.secret_checks import SecretChecks
from services.agent.credentials.waiting_applications import WaitingApplications
from services.agent.objects.engine_state import EngineState
from services.agent.objects.live import EngineObjects, SecretReader
from services.agent.objects.managed_kinds import ObjectKey, key_of, sync_of
from services.agent.objects.tenant_destinations import IsPlatform
from services.agent.observe.instance_informers import Follow
from services.agent.observe.observation_sink import ObservationSink
from services.agent.private_repositories.allowed_repositories import AllowedRepositories
from services.agent.private_repositories.isolation import RepositoryIsolation
from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry
from services.agent.private_repositories.registry_expiry import RegistryExpiry
from services.agent.reconcile.object_applier import Applier, ObjectApplier
from services.agent.reconcile.reconciler import Reconciler
from services.agent.reconcile.secret_applier import SecretApplier
from services.agent.reconcile.sync_applier import SyncApplier
from services.agent.settings import AgentSettings
from services.common.clock import Clock
from services.common.kubernetes import SECRET, KubeClient
from services.common.messages import EngineResource
from services.common.messages.compiled import RowKind


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What an instance acts on and reports to."""

    cluster: KubeClient
    follow: Follow
    checker: Checker
    reports: ObservationSink
    clock: Clock
    on_defect: Callable[[BaseException], None]
    engines: defaultdict[str, EngineState]
    """By instance id, what was found of its Argo CD."""
    is_platform: IsPlatform
    wanted_version: Callable[[str], str]
    """Returns the version that an instance was ordered with; empty: none."""
    is_in_service: Callable[[str], bool]
    """Returns whether tenants may be on an instance."""
    inspect_engines: Callable[[], None]
    """Requests an inspection of all Argo CDs of the cluster."""


@dataclass(frozen=True, slots=True)
class Appliers:
    """The appliers of one instance."""

    objects: ObjectApplier
    secrets: SecretApplier
    syncs: SyncApplier
    isolation: RepositoryIsolation

    def applier_of(self, key: ObjectKey) -> Applier:
        """The applier of the row with this key."""
        if key.kind == SECRET.kind:
            return self.secrets
        return self.syncs if key.kind == RowKind.SYNC_OPERATION else self.objects

    async def suspend(self) -> None:
        """Stop: the instance is no longer ours. When this returns, no task is running."""
        for applier in (self.objects, self.secrets, self.syncs):
            await applier.suspend()


def build_appliers(
    rows: Mapping[ObjectKey, EngineResource],
    live: EngineObjects,
    namespace: str,
    enqueue: Callable[[Iterable[ObjectKey]], None],
    dependencies: Dependencies,
    settings: AgentSettings,
    *,
    engine: EngineState,
) -> Appliers:
    """The appliers of an instance. ``enqueue`` queues the rows with these keys, while the instance is ours."""
    cluster, checker, clock, on_defect = (
        dependencies.cluster,
        dependencies.checker,
        dependencies.clock,
        dependencies.on_defect,
    )
    deletion_timeout = timedelta(seconds=settings.deletion_deadline_seconds)

    def enqueue_row(row: EngineResource) -> None:
        enqueue([key_of(row)])

    reconciler, reader = Reconciler(cluster, live, clock, deletion_timeout), SecretReader(cluster, clock)
    registry, waiting = PrivateRepositoryRegistry(cluster, namespace), WaitingApplications(live, enqueue)
    expiry = partial(RegistryExpiry, registry, cluster, namespace, clock)
    isolation = RepositoryIsolation(
        rows, live, registry, checker, expiry, clock=clock, enqueue=enqueue, on_defect=on_defect
    )
    checks = SecretChecks(
        reader,
        checker,
        clock,
        settings,
        admit=isolation.admit_login,
        waiting_applications=waiting,
        on_result=enqueue_row,
        on_defect=on_defect,
    )
    cleanups = AccountCleanups(
        reader, checker, live, clock, deletion_timeout=deletion_timeout, on_done=enqueue_row, on_defect=on_defect
    )
    repositories = AllowedRepositories(
        checker, live, clock, settings.comparison_interval_seconds, on_result=enqueue, on_defect=on_defect
    )
    syncs = SyncApplier(cluster, live, dependencies.reports, clock, isolation.may_sync, engine)

    def ensure_reported(application: ObjectKey) -> bool:
        key = sync_of(application)
        return key not in rows or syncs.ensure_reported(key, rows[key])

    objects = ObjectApplier(
        reconciler,
        live,
        repositories,
        waiting,
        isolation,
        engine=engine,
        is_platform=dependencies.is_platform,
        ensure_reported=ensure_reported,
    )
    return Appliers(objects, SecretApplier(reconciler, live, checks, cleanups, clock), syncs, isolation)
