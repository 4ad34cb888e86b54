"""The private repositories of one instance, as durable as its checkouts: in a Secret for each tenant that found one.

So a tenant's entries cost only that tenant: their number is bounded, and a change rewrites only its own Secret. An
entry belongs to the tenant whose login opened the repository first, and applies to all tenants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import structlog

from services.agent.private_repositories.registry_secret import (
    LABEL,
    NAME,
    PrivateRepository,
    RegistrySecret,
    content_of,
)
from services.agent.private_repositories.repository_identity import SIZE, Identity, digest_of
from services.common.errors import Permanent
from services.common.kubernetes import SECRET, KubeClient, Manifest, NotFound
from services.common.ownership import AGENT_FIELD_MANAGER

log = structlog.get_logger(__name__)

TENANT_LIMIT = 1_000
"""Repositories of one tenant: ten times the logins that it may have at a time, 36 KB."""
OWNER_SIZE = 8
UNKNOWN_OWNER = bytes(OWNER_SIZE)
"""Owner of entries that are older than owners, and that no tenant has a login for."""
FORMER_FIELD = "repositories"
MOVED = "bW92ZWQ="
"""A content that older agents consider damaged, so that they apply nothing."""
SELECTOR = ",".join(f"{name}={value}" for name, value in LABEL.items())

LaneOf = Callable[[bytes], str | None]


def owner_of(lane: str) -> bytes:
    """The owner for a tenant's lane."""
    return digest_of(lane, OWNER_SIZE)


class TenantLimitReached(Exception):
    """The tenant has as many private repositories as it may."""


class PrivateRepositoryRegistry:
    """The private repositories. A change is in force at once, and durable when it was saved."""

    def __init__(self, cluster: KubeClient, namespace: str, limit: int = TENANT_LIMIT) -> None:
        """``limit``: of one tenant's entries."""
        self._cluster, self._namespace, self._limit = cluster, namespace, limit
        self._secrets: dict[bytes, RegistrySecret] = {}
        """By owner."""
        self._owners: dict[bytes, bytes] = {}
        """By repository."""
        self._unsaved: defaultdict[bytes, set[bytes]] = defaultdict(set)
        """Unsaved repositories by owner."""

    def __len__(self) -> int:
        return len(self._owners)

    def repositories(self) -> list[bytes]:
        """All private repositories."""
        return list(self._owners)

    def entry_of(self, repository: bytes) -> PrivateRepository | None:
        """The entry of the private repository that shares its checkout with this URL's."""
        owner = self._owners.get(repository)
        return None if owner is None else self._secrets[owner].entries.get(repository)

    def identity_in_force(self, repository: bytes) -> Identity | None:
        """The identity of the private repository that shares its checkout with this URL's."""
        entry = self.entry_of(repository)
        return Identity(repository, entry.spelling) if entry is not None else None

    def add_repository(self, identity: Identity, lane: str) -> None:
        """Add a private repository, which the tenant's login has found. Raises TenantLimitReached."""
        owner = owner_of(lane)
        if len(self._secret_of(owner).entries) >= self._limit:
            raise TenantLimitReached
        self._put(identity.repository, owner, PrivateRepository(identity.spelling))

    def remove_repository(self, identity: Identity) -> None:
        """Remove a repository that is public or was given up, unless its URL has another identity by now."""
        if self.identity_in_force(identity.repository) == identity:
            self._put(identity.repository, self._owners[identity.repository], None)

    def note_unnamed(self, repository: bytes, since: int) -> None:
        """Record since when no row names a known repository; 0: a row does."""
        entry = self.entry_of(repository)
        if entry is not None and entry.unnamed_since != since:
            self._put(repository, self._owners[repository], replace(entry, unnamed_since=since))

    async def load_repositories(self, lane_of: LaneOf) -> None:
        """Load the registry, and forget unsaved changes. Raises Permanent (unreadable), or as a cluster does.

        ``lane_of`` returns a tenant with a login for a repository; entries without an owner are given to that tenant.
        """
        self._secrets, self._owners = {}, {}
        self._unsaved.clear()
        async for page in self._cluster.list_pages(SECRET, self._namespace, selector=SELECTOR):
            for manifest in page.items:
                self._secret_of(_owner_in(manifest)).load_manifest(manifest)
        for owner in sorted(self._secrets):
            self._index(owner)
        await self._migrate_former(lane_of)

    async def save_repository(self, repository: bytes) -> None:
        """Save the changes of a repository. Raises as a cluster does; unsaved changes stay pending."""
        for owner in [owner for owner, changed in self._unsaved.items() if repository in changed]:
            await self._save(owner)

    async def save_all(self) -> None:
        """Save all changes. Raises as :meth:`save_repository`."""
        for owner in sorted(self._unsaved):
            await self._save(owner)

    async def _save(self, owner: bytes) -> None:
        secret = self._secret_of(owner)
        await secret.save_changes()
        self._unsaved.pop(owner, None)
        self._index(owner)
        if not secret.entries and owner not in self._unsaved:
            self._secrets.pop(owner, None)  # there is none any more

    def _secret_of(self, owner: bytes) -> RegistrySecret:
        if owner not in self._secrets:
            self._secrets[owner] = RegistrySecret(self._cluster, self._namespace, owner)
        return self._secrets[owner]

    def _put(self, repository: bytes, owner: bytes, entry: PrivateRepository | None) -> None:
        self._secret_of(owner).put_entry(repository, entry)
        self._unsaved[owner].add(repository)
        if entry is None:
            self._owners.pop(repository, None)
        else:
            self._owners[repository] = owner

    def _index(self, owner: bytes) -> None:
        """Index a Secret after it was read. It may have another agent's changes."""
        for repository in list(self._secrets[owner].entries):
            if self._owners.setdefault(repository, owner) != owner:
                self._secrets[owner].put_entry(repository, None)  # two agents wrote it for two tenants
                self._unsaved[owner].add(repository)

    async def _migrate_former(self, lane_of: LaneOf) -> None:
        """Move the entries of the former, single Secret to their owners' Secrets.

        1. Write them to the owners' Secrets.
        2. Mark the former Secret as moved: an older agent then applies nothing, rather than consider everything public.

        A crash in between repeats the first step.
        """
        try:
            former = await self._cluster.get_object(SECRET, self._namespace, NAME)
        except NotFound:
            return
        if (former.get("data") or {}).get(FORMER_FIELD) == MOVED:
            return
        for identity in _former_identities(former):
            if self.entry_of(identity.repository) is None:
                lane = lane_of(identity.repository)
                owner = UNKNOWN_OWNER if lane is None else owner_of(lane)
                self._put(identity.repository, owner, PrivateRepository(identity.spelling))
        await self.save_all()
        patch = {"metadata": {"resourceVersion": former["metadata"]["resourceVersion"]}, "data": {FORMER_FIELD: MOVED}}
        await self._cluster.patch_object(SECRET, self._namespace, NAME, patch, field_manager=AGENT_FIELD_MANAGER)
        log.info("private repositories moved to a Secret for each tenant", repositories=len(self))


def _owner_in(secret: Manifest) -> bytes:
    name = secret["metadata"]["name"]
    try:
        return bytes.fromhex(name.removeprefix(f"{NAME}-"))
    except ValueError as error:
        raise Permanent(f"Secret {name} has the label of private repositories, but not their name") from error


def _former_identities(secret: Manifest) -> list[Identity]:
    if not (secret.get("data") or {}).get(FORMER_FIELD):
        return []  # the last of them had become public
    content = content_of(secret, FORMER_FIELD, 2 * SIZE)
    entries = (content[at : at + 2 * SIZE] for at in range(0, len(content), 2 * SIZE))
    return [Identity(entry[:SIZE], entry[SIZE:]) for entry in entries]
