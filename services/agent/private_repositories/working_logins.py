"""Which tenants have a working login of their own for a repository. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from services.agent.credentials.check_result import RepositoryAccess
from services.agent.objects.desired_objects import mapping
from services.agent.objects.live import EngineObjects, value_hash
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.private_repositories.references import RepositoryReferences, source_repositories
from services.agent.private_repositories.repository_identity import Identity, identity_of, repository_of
from services.common.kubernetes import APP_PROJECT, SECRET
from services.common.messages import EngineResource

OPENING = frozenset({RepositoryAccess.ANYBODY, RepositoryAccess.LOGIN})


class WorkingLogins:
    """The logins of one instance's tenants, and whether they last worked."""

    def __init__(
        self, rows: Mapping[ObjectKey, EngineResource], live: EngineObjects, references: RepositoryReferences
    ) -> None:
        self._rows, self._live, self._references = rows, live, references
        self._found: dict[ObjectKey, tuple[Identity, RepositoryAccess]] = {}

    def note_access(self, key: ObjectKey, identity: Identity, access: RepositoryAccess) -> None:
        """Record the result of a check."""
        self._found[key] = (identity, access)

    def found_access(self, key: ObjectKey, identity: Identity) -> RepositoryAccess | None:
        """The last result for this repository; None if there is none."""
        known = self._found.get(key)
        return known[1] if known is not None and known[0] == identity else None

    def forget_login(self, key: ObjectKey) -> None:
        """Forget a login that is not wanted any more."""
        self._found.pop(key, None)

    def clear(self) -> None:
        """Forget all results: another agent may find others meanwhile."""
        self._found.clear()

    def has_login(self, lane: str, identity: Identity) -> bool:
        """Whether the tenant has a login that opens the repository.

        Before the first check after a take-over, a login counts if Argo CD has it and was allowed to use it.
        """
        for key in self._keys_of(lane, identity.repository, SECRET.kind):
            url = self._references.urls_of(key)[0]
            found = self.found_access(key, identity)
            if found in OPENING:
                return True
            is_open = found is None and identity_of(url) == identity and self.is_applied(key, url)
            if is_open and self._is_listed(lane, identity.repository):
                return True
        return False

    def is_applied(self, key: ObjectKey, url: str) -> bool:
        """Whether Argo CD has this login, for this URL."""
        live = self._live.get(key)
        encoded = base64.b64encode(url.encode()).decode()
        return live is not None and mapping(live.owned, "data").get("url") == value_hash(encoded)

    def _is_listed(self, lane: str, repository: bytes) -> bool:
        projects = (self._live.get(key) for key in self._keys_of(lane, repository, APP_PROJECT.kind))
        specs = (project.owned.get("spec") for project in projects if project is not None)
        return any(repository_of(url) == repository for spec in specs for url in source_repositories(spec))

    def _keys_of(self, lane: str, repository: bytes, kind: str) -> list[ObjectKey]:
        return [key for key in self._references.keys_of_kind(repository, kind) if self._rows[key].lane == lane]
