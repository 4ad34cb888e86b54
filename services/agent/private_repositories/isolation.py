"""Decides which tenant may read which repository, and changes an instance's objects accordingly.

A repository is private if it opens with a login and not without one; every check of a login tests both. A tenant
without a working login of its own is denied a private repository in three ways, because Argo CD checks each at another
moment: its AppProjects do not list the repository, Applications that name it are not applied, and none of them is
synced.

When a repository is first found to be private, the order of the steps makes it safe:

1. Remember it, and queue the other tenants' objects that name it.
2. Write it to the registry.
3. Wait until the other tenants' objects no longer let Argo CD read it.
4. Wait until what Argo CD had begun for them has failed.
5. Give the login to Argo CD, which fetches the repository.

A crash between any two steps leaves a repository that nobody has fetched with a login.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

import structlog

from services.agent.background_tasks import BackgroundTasks
from services.agent.credentials.check_result import Checker, CheckResult, RepositoryAccess
from services.agent.objects.desired_objects import mapping
from services.agent.objects.live import EngineObjects, LiveObject
from services.agent.objects.live_operation import termination_patch
from services.agent.objects.managed_kinds import ObjectKey, application_of
from services.agent.private_repositories.known_repositories import PrivateRepositoryRegistry, TenantLimitReached
from services.agent.private_repositories.references import RepositoryReferences, source_repositories
from services.agent.private_repositories.registry_expiry import RegistryExpiry
from services.agent.private_repositories.repository_identity import Identity, identity_of, repository_of
from services.agent.private_repositories.visibility_checks import VisibilityChecks
from services.agent.private_repositories.working_logins import WorkingLogins
from services.common.backoff import Backoff
from services.common.clock import Clock
from services.common.errors import GitOpsError, RefusedInput, Retry
from services.common.kubernetes import APP_PROJECT, SECRET, Manifest
from services.common.messages import EngineResource
from services.common.queueing import in_slices
from services.kinds.gitops_deployment import catalogue as deployment
from services.kinds.repository_credential import catalogue as credential

log = structlog.get_logger(__name__)

REPO_SERVER_TIMEOUT = timedelta(seconds=60)
"""How long Argo CD's controller waits for its repo server, and may use what was allowed before. Awaited only if objects
of other tenants had to be changed."""
LOAD_LIMIT_SECONDS = 15.0


class RepositoryIsolation:
    """The private repositories and the tenants of one instance."""

    def __init__(
        self,
        rows: Mapping[ObjectKey, EngineResource],
        live: EngineObjects,
        registry: PrivateRepositoryRegistry,
        checker: Checker,
        expiry: Callable[[Callable[[bytes], bool]], RegistryExpiry],
        *,
        clock: Clock,
        enqueue: Callable[[Iterable[ObjectKey]], None],
        on_defect: Callable[[BaseException], None],
    ) -> None:
        """``rows`` are those passed to :meth:`note_row`; ``enqueue`` queues objects that may have to change.

        ``expiry`` is called with a function that returns whether a row names a repository.
        """
        self._rows, self._live, self._registry, self._clock, self._enqueue = rows, live, registry, clock, enqueue
        self._tasks = BackgroundTasks(on_defect)
        self._references = RepositoryReferences()
        self._logins = WorkingLogins(rows, live, self._references)
        self._visibility = VisibilityChecks(
            self._tasks, checker, clock, registry, on_public=self._found_public, on_tried=enqueue
        )
        self._expiry = expiry(lambda repository: bool(self._references.keys_of(repository)))
        self._changed = asyncio.Event()
        self._withdrawn: set[bytes] = set()
        """Repositories that other tenants' objects let Argo CD read until just now, or still do."""
        self.ready = False
        """Whether it is known what is private. Before that nothing may be applied."""

    # Rows

    def load_registry(self, then: Callable[[], None], *, complete: bool) -> None:
        """Load the registry, because the instance is ours now. ``then`` is called when it is loaded.

        Unless the rows are ``complete``, no repository is forgotten because no row names it.
        """
        self._references.clear()
        self._tasks.start_task(self._load(then), "load private repositories")
        if complete:
            self._tasks.start_task(self._expiry.expire_repeatedly(), "forget private repositories")

    def note_row(self, key: ObjectKey, row: EngineResource) -> None:
        """Record the newest row of ``key``."""
        before = self._references.urls_of(key)
        self._references.put_row(key, row)
        if not self._references.urls_of(key):
            self._logins.forget_login(key)
        self.notify_change()
        self._enqueue_lane(row, {*before, *self._references.urls_of(key)})

    def forget_row(self, key: ObjectKey, row: EngineResource | None) -> None:
        """Forget ``row``, which is gone."""
        urls = self._references.urls_of(key)
        self._references.drop_row(key)
        self._logins.forget_login(key)
        self._visibility.forget_object(key)
        self.notify_change()
        if row is not None:
            self._enqueue_lane(row, set(urls))

    def notify_change(self) -> None:
        """A row or a live object of the instance has changed."""
        self._changed.set()

    async def suspend(self) -> None:
        """Stop: the instance is no longer ours. When this returns, no task is running."""
        self.ready = False
        self._tasks.cancel_all()
        self._visibility.clear()
        self._logins.clear()
        await self._tasks.wait_for_all()

    # Decisions

    def is_denied(self, lane: str, url: str) -> bool:
        """Whether the tenant is denied a repository."""
        if not len(self._registry):
            return False
        private = self._registry.identity_in_force(repository_of(url))
        return private is not None and not self._logins.has_login(lane, private)

    def allowed_project(self, row: EngineResource, project: Manifest) -> Manifest:
        """The AppProject without the repositories that its tenant is denied."""
        spec = mapping(project, "spec")
        repositories = source_repositories(spec)
        allowed = [url for url in repositories if not self.is_denied(row.lane, url)]
        return project | {"spec": spec | {"sourceRepos": allowed}} if len(allowed) < len(repositories) else project

    def may_read(self, key: ObjectKey, row: EngineResource, url: str) -> bool:
        """Whether the row may have Argo CD read the repository.

        If not, an attempt is made, and ``key`` queued after it.

        Raises RefusedInput if the tenant is denied the repository, and its server has refused the attempt, too.
        """
        if not self.is_denied(row.lane, url):
            self._visibility.forget_object(key)
            return True
        if self._visibility.has_tried(key, row, url):
            raise RefusedInput(deployment.REPOSITORY_NEEDS_LOGIN.text())
        return False

    def may_sync(self, key: ObjectKey, row: EngineResource, url: str) -> bool:
        """Whether a sync may have Argo CD read ``url``, which is empty if its Application does not exist.

        An Application that is denied its repository is not created, or still names the repository before.
        """
        wanted = next(iter(self._references.urls_of(application_of(key))), url)
        return self.may_read(key, row, wanted) and not self.is_denied(row.lane, url)

    # Results of checks

    async def admit_login(self, key: ObjectKey, row: EngineResource, made: CheckResult) -> CheckResult:
        """Process the result of a login's check. Returns when the login may be given to Argo CD.

        Raises Retry while that is not known, or the registry cannot be written.
        """
        urls = self._references.urls_of(key)
        if made.access is None or not urls:
            return made
        identity = identity_of(urls[0])
        access = self._access_of(key, identity, made.access)
        self._note_access(key, row, identity, access)
        if access is RepositoryAccess.NOBODY:
            return made
        is_private = access is RepositoryAccess.LOGIN
        problem = self._note_private(identity, row.lane) if is_private else self._note_public(identity)
        if problem:
            return CheckResult(None, credential.URL_NOT_FOUND[0].reason, f"spec.repository {problem}")
        must_wait = is_private and not self._logins.is_applied(key, urls[0])
        if must_wait and self._readers(identity.repository):  # now: they may be gone when it is saved
            self._withdrawn.add(identity.repository)
        await self._registry.save_repository(identity.repository)
        if must_wait:
            await self._await_no_readers(identity.repository)
        return made

    def _access_of(self, key: ObjectKey, identity: Identity, access: RepositoryAccess) -> RepositoryAccess:
        """The access; if this check could not find out whether others can read it, the access found before."""
        if access is not RepositoryAccess.UNCLEAR:
            return access
        if self._registry.identity_in_force(identity.repository) is not None:
            return RepositoryAccess.LOGIN
        if self._logins.found_access(key, identity) is RepositoryAccess.ANYBODY:
            return RepositoryAccess.ANYBODY
        raise Retry("whether the repository can be read without a login could not be told")

    def _note_access(self, key: ObjectKey, row: EngineResource, identity: Identity, access: RepositoryAccess) -> None:
        found = self._logins.found_access(key, identity)
        self._logins.note_access(key, identity, access)
        if found is not access:
            self.notify_change()
            self._enqueue_lane(row, {*self._references.urls_of(key)})

    def _note_private(self, identity: Identity, lane: str) -> str:
        """Record that the repository is private. Returns the problem with that, empty if there is none."""
        known = self._registry.identity_in_force(identity.repository)
        if known is not None:
            self._registry.note_unnamed(identity.repository, 0)
            return "" if known == identity else credential.OTHER_LETTERS
        try:
            self._registry.add_repository(identity, lane)
        except TenantLimitReached:
            log.warning("a tenant has as many private repositories as it may", lane=lane)
            return credential.NO_ROOM
        log.info("private repository", repository=identity.repository.hex())
        self._enqueue(self._references.keys_of(identity.repository))
        return ""

    def _note_public(self, identity: Identity) -> str:
        """Record that the repository is public. Returns the problem with that, empty if there is none."""
        known = self._registry.identity_in_force(identity.repository)
        if known not in {None, identity}:
            return credential.OTHER_LETTERS
        if known is not None:
            self._registry.remove_repository(identity)
            log.info("public repository", repository=identity.repository.hex())
            self._enqueue(self._references.keys_of(identity.repository))
        return ""

    async def _found_public(self, identity: Identity) -> None:
        self._note_public(identity)
        await self._registry.save_repository(identity.repository)

    async def _await_no_readers(self, repository: bytes) -> None:
        """Wait until Argo CD does nothing any more by which other tenants would get the content."""
        seen: dict[ObjectKey, LiveObject] = {}
        while readers := self._readers(repository):
            self._withdrawn.add(repository)
            # One that is as it was could not be changed: that is tried again at its own pace.
            self._enqueue([key for key, live in readers.items() if seen.get(key) is not live])
            seen = readers
            self._changed.clear()
            await self._changed.wait()
        if repository in self._withdrawn:
            await self._clock.sleep(REPO_SERVER_TIMEOUT.total_seconds())
            self._withdrawn.discard(repository)

    def _readers(self, repository: bytes) -> dict[ObjectKey, LiveObject]:
        """Objects of tenants without a login that let Argo CD read it nevertheless."""
        private = self._registry.identity_in_force(repository)
        if private is None:
            return {}
        found = {key: live for key in self._references.keys_of(repository) if (live := self._live.get(key)) is not None}
        return {
            key: live
            for key, live in found.items()
            if _reads(key, live, repository) and not self._logins.has_login(self._rows[key].lane, private)
        }

    async def _load(self, then: Callable[[], None]) -> None:
        async for key in in_slices(list(self._rows)):
            if key in self._rows:
                self._references.put_row(key, self._rows[key])
        delays = Backoff(limit=LOAD_LIMIT_SECONDS)
        while True:
            try:
                await self._registry.load_repositories(self._lane_with_login)
            except GitOpsError as error:
                log.warning("private repositories not to be read yet; nothing is applied", error=str(error))
                await self._clock.sleep(delays.next_delay())
            else:
                self.ready = True
                return then()

    def _lane_with_login(self, repository: bytes) -> str | None:
        keys = self._references.keys_of_kind(repository, SECRET.kind)
        return self._rows[min(keys)].lane if keys else None

    def _enqueue_lane(self, row: EngineResource, urls: set[str]) -> None:
        """Queue the tenant's own objects that name one of these URLs, if it is private."""
        private = {repository_of(url) for url in urls} if len(self._registry) else set()
        for repository in private:
            if self._registry.identity_in_force(repository) is not None:
                self._enqueue([key for key in self._references.keys_of(repository) if self._rows[key].lane == row.lane])


def _reads(key: ObjectKey, live: LiveObject, repository: bytes) -> bool:
    if key.kind == APP_PROJECT.kind:
        return any(repository_of(url) == repository for url in source_repositories(live.owned.get("spec")))
    return bool(termination_patch(live.operation))
