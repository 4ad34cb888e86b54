"""Which tenants have a login of their own that opens a repository. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from services.agent.credentials import Access
from services.agent.live_objects import LiveObjects
from services.agent.objects import ObjectKey, fingerprint, mapping
from services.agent.private_repositories.identity import Identity, identity_of, repository_of
from services.agent.private_repositories.namers import Namers, listed
from services.common.kube import APP_PROJECT, SECRET
from services.common.messages import EngineResource

OPENING = frozenset({Access.ANYBODY, Access.LOGIN})


class Logins:
    """Logins of one instance's tenants, as they were last found to work or not."""

    def __init__(self, rows: Mapping[ObjectKey, EngineResource], live: LiveObjects, namers: Namers) -> None:
        self._rows, self._live, self._namers = rows, live, namers
        self._found: dict[ObjectKey, tuple[Identity, Access]] = {}

    def note(self, key: ObjectKey, identity: Identity, access: Access) -> None:
        """What a check has found out."""
        self._found[key] = (identity, access)

    def found(self, key: ObjectKey, identity: Identity) -> Access | None:
        """What was last found out of this repository; None if nothing was."""
        known = self._found.get(key)
        return known[1] if known is not None and known[0] == identity else None

    def forget(self, key: ObjectKey) -> None:
        """It is wanted no longer."""
        self._found.pop(key, None)

    def clear(self) -> None:
        """Somebody else may find out other things meanwhile."""
        self._found.clear()

    def has(self, lane: str, identity: Identity) -> bool:
        """Whether the tenant has a login that opens it.

        Before the first check after a take-over it has one if Argo CD has it and was allowed to use it: what is not
        known is left as it is.
        """
        for key in self._of(lane, identity.repository, SECRET.kind):
            url = self._namers.urls(key)[0]
            found = self.found(key, identity)
            if found in OPENING:
                return True
            is_open = found is None and identity_of(url) == identity and self.is_held(key, url)
            if is_open and self._is_listed(lane, identity.repository):
                return True
        return False

    def is_held(self, key: ObjectKey, url: str) -> bool:
        """Whether Argo CD has this login, for this URL."""
        live = self._live.get(key)
        encoded = base64.b64encode(url.encode()).decode()
        return live is not None and mapping(live.owned, "data").get("url") == fingerprint(encoded)

    def _is_listed(self, lane: str, repository: bytes) -> bool:
        projects = (self._live.get(key) for key in self._of(lane, repository, APP_PROJECT.kind))
        specs = (project.owned.get("spec") for project in projects if project is not None)
        return any(repository_of(url) == repository for spec in specs for url in listed(spec))

    def _of(self, lane: str, repository: bytes, kind: str) -> list[ObjectKey]:
        return [key for key in self._namers.of_kind(repository, kind) if self._rows[key].lane == lane]
