"""Decides who may read which repository, and makes what an instance holds follow.

A repository is private when a login opens it and nobody else does; both is asked at the same moment, at every check.
Then whoever has no login of his own that works is kept from it in three ways, for Argo CD asks for each of them at
other moments: his AppProjects do not list it, Applications that name it are not applied, and none is synced.

Order is safety where a repository is first found to be private:
1. It is kept in mind, and what others hold of it is marked. 2. It is written to the registry. 3. Others are seen to be
kept from it. 4. What Argo CD had in hand for them has had time to fail. 5. The login that opens it is given to Argo CD,
which fetches it. A crash between any two leaves a repository that nobody has fetched with a login.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

import structlog

from services.agent.beside import Beside
from services.agent.clock import pause
from services.agent.credentials import Access, Composition
from services.agent.live_objects import LiveObjects
from services.agent.live_operation import ending
from services.agent.objects import LiveObject, ObjectKey, mapping
from services.agent.outside import Outside
from services.agent.private_repositories.identity import Identity, identity_of, repository_of
from services.agent.private_repositories.inquiries import Inquiries
from services.agent.private_repositories.logins import Logins
from services.agent.private_repositories.namers import Namers, listed
from services.agent.private_repositories.registry import Full, Registry
from services.common.api.catalogue import credential, deployment
from services.common.backoff import Backoff
from services.common.errors import GitOpsError, Permanent, Retry
from services.common.kube import APP_PROJECT, Manifest
from services.common.messages import EngineResource

log = structlog.get_logger(__name__)

SETTLING = timedelta(seconds=60)
"""As long as Argo CD's controller waits for its repo server: it may be at work on what was allowed a moment ago.

Only who has others to shut out waits for that.
"""
LOAD_LIMIT_SECONDS = 15.0

Look = Callable[[Iterable[ObjectKey]], None]


class Fence:
    """Private repositories and the tenants of one instance."""

    def __init__(
        self,
        rows: Mapping[ObjectKey, EngineResource],
        live: LiveObjects,
        namespace: str,
        outside: Outside,
        look: Look,
    ) -> None:
        """``rows`` are those that :meth:`know` was told of; ``look`` marks what may have to become another."""
        self._rows, self._live, self._clock, self._look = rows, live, outside.clock, look
        self._beside = Beside(outside.cluster, outside.on_defect)
        self._registry = Registry(outside.cluster, namespace)
        self._namers = Namers()
        self._logins = Logins(rows, live, self._namers)
        self._inquiries = Inquiries(self._beside, outside.composers, self._clock, self._registry, self._found_public)
        self._moved = asyncio.Event()
        self.ready = False
        """What is private is known: before that nothing may be applied."""

    # Knowing

    def take_over(self, then: Callable[[], None]) -> None:
        """``rows`` are those of an instance that is ours now; ``then`` is called when we are ready."""
        self._namers.clear()
        for key, row in self._rows.items():
            self._namers.put(key, row)
        self._beside.start(self._load(then), "load private repositories")

    def know(self, key: ObjectKey, row: EngineResource) -> None:
        """The newest row of ``key``."""
        before = self._namers.urls(key)
        self._namers.put(key, row)
        if not self._namers.urls(key):
            self._logins.forget(key)
        self.moved()
        self._look_at_lane(row, {*before, *self._namers.urls(key)})

    def forget(self, key: ObjectKey, row: EngineResource | None) -> None:
        """``row`` is gone."""
        urls = self._namers.urls(key)
        self._namers.drop(key)
        self._logins.forget(key)
        self.moved()
        if row is not None:
            self._look_at_lane(row, set(urls))

    def moved(self) -> None:
        """Something of the instance is not as it was."""
        self._moved.set()

    async def suspend(self) -> None:
        """The instance is no longer ours: when this returns nothing is under way."""
        self.ready = False
        self._beside.cancel()
        self._inquiries.clear()
        self._logins.clear()
        await self._beside.ended()

    # Deciding

    def withholds(self, lane: str, url: str) -> bool:
        """Whether the tenant is kept from a repository."""
        if not len(self._registry):
            return False
        private = self._registry.get(repository_of(url))
        return private is not None and not self._logins.has(lane, private)

    def confined(self, row: EngineResource, project: Manifest) -> Manifest:
        """The AppProject without the repositories that its tenant is kept from."""
        spec = mapping(project, "spec")
        repositories = listed(spec)
        allowed = [url for url in repositories if not self.withholds(row.lane, url)]
        return project | {"spec": spec | {"sourceRepos": allowed}} if len(allowed) < len(repositories) else project

    def require_login(self, row: EngineResource, url: str) -> None:
        """Raises Permanent, with a text for users, if the tenant is kept from the repository."""
        if self.withholds(row.lane, url):
            self._inquiries.ask(row, url)
            raise Permanent(deployment.REPOSITORY_NEEDS_LOGIN.text())

    # Finding out

    async def admit(self, key: ObjectKey, row: EngineResource, made: Composition) -> Composition:
        """Take in what the check of a login has found out; returns when that login may be given to Argo CD.

        Raises Retry while that is not known, or the registry cannot be written.
        """
        urls = self._namers.urls(key)
        if made.access is None or not urls:
            return made
        identity = identity_of(urls[0])
        access = self._decided(key, identity, made.access)
        self._note(key, row, identity, access)
        if access is Access.NOBODY:
            return made
        problem = self._closed(identity) if access is Access.LOGIN else self._opened(identity)
        if problem:
            return Composition(None, credential.URL_NOT_FOUND[0].reason, f"spec.repository {problem}")
        await self._registry.saved()
        if access is Access.LOGIN and not self._logins.is_held(key, urls[0]):
            await self._shut(identity.repository)
        return made

    def _decided(self, key: ObjectKey, identity: Identity, access: Access) -> Access:
        """Whether others can read it, if that could not be told now, is as it was found before."""
        if access is not Access.UNCLEAR:
            return access
        if self._registry.get(identity.repository) is not None:
            return Access.LOGIN
        if self._logins.found(key, identity) is Access.ANYBODY:
            return Access.ANYBODY
        raise Retry("whether the repository can be read without a login could not be told")

    def _note(self, key: ObjectKey, row: EngineResource, identity: Identity, access: Access) -> None:
        found = self._logins.found(key, identity)
        self._logins.note(key, identity, access)
        if found is not access:
            self.moved()
            self._look_at_lane(row, {*self._namers.urls(key)})

    def _closed(self, identity: Identity) -> str:
        """It is private; returns what is wrong with it, empty if nothing is."""
        known = self._registry.get(identity.repository)
        if known is not None:
            return "" if known == identity else credential.OTHER_LETTERS
        try:
            self._registry.add(identity)
        except Full:
            log.warning("no room for another private repository")
            return credential.NO_ROOM
        log.info("private repository", repository=identity.repository.hex())
        self._look(self._namers.of(identity.repository))
        return ""

    def _opened(self, identity: Identity) -> str:
        """It is public; returns what is wrong with it, empty if nothing is."""
        known = self._registry.get(identity.repository)
        if known not in {None, identity}:
            return credential.OTHER_LETTERS
        if known is not None:
            self._registry.remove(identity)
            log.info("public repository", repository=identity.repository.hex())
            self._look(self._namers.of(identity.repository))
        return ""

    async def _found_public(self, identity: Identity) -> None:
        self._opened(identity)
        await self._registry.saved()

    async def _shut(self, repository: bytes) -> None:
        """Wait until Argo CD has nothing in hand any more by which others would be given the content."""
        readers = self._readers(repository)
        if not readers:
            return
        seen: dict[ObjectKey, LiveObject] = {}
        while readers:
            # One that is as it was could not be changed: that is tried again at its own pace.
            self._look([key for key, live in readers.items() if seen.get(key) is not live])
            seen = readers
            self._moved.clear()
            await self._moved.wait()
            readers = self._readers(repository)
        await pause(self._clock, SETTLING)

    def _readers(self, repository: bytes) -> dict[ObjectKey, LiveObject]:
        """Objects of tenants without a login by which Argo CD would read it all the same."""
        private = self._registry.get(repository)
        if private is None:
            return {}
        found = {key: live for key in self._namers.of(repository) if (live := self._live.get(key)) is not None}
        return {
            key: live
            for key, live in found.items()
            if _reads(key, live, repository) and not self._logins.has(self._rows[key].lane, private)
        }

    async def _load(self, then: Callable[[], None]) -> None:
        delays = Backoff(limit=LOAD_LIMIT_SECONDS)
        while True:
            try:
                await self._registry.load()
            except GitOpsError as error:
                log.warning("private repositories not to be read yet; nothing is applied", error=str(error))
                await pause(self._clock, timedelta(seconds=delays.next()))
            else:
                self.ready = True
                return then()

    def _look_at_lane(self, row: EngineResource, urls: set[str]) -> None:
        """The tenant's own objects that name one of these, if it is private."""
        private = {repository_of(url) for url in urls} if len(self._registry) else set()
        for repository in private:
            if self._registry.get(repository) is not None:
                self._look([key for key in self._namers.of(repository) if self._rows[key].lane == row.lane])


def _reads(key: ObjectKey, live: LiveObject, repository: bytes) -> bool:
    if key.kind == APP_PROJECT.kind:
        return any(repository_of(url) == repository for url in listed(live.owned.get("spec")))
    return bool(ending(live.operation))
