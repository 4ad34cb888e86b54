"""Index of the rows that name a repository. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from services.agent.objects.desired_objects import manifest_of, mapping, source_url
from services.agent.objects.managed_kinds import ObjectKey
from services.agent.private_repositories.repository_identity import repository_of
from services.common.errors import Permanent
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET
from services.common.messages import EngineResource, RowKind

LIVE_KINDS = (APP_PROJECT.kind, APPLICATION.kind, SECRET.kind)
NAMING = frozenset({RowKind.APP_PROJECT, RowKind.APPLICATION, RowKind.REPOSITORY_SECRET})


class RepositoryReferences:
    """Keys of existing rows, by the repositories that the rows name."""

    def __init__(self) -> None:
        self._urls: dict[ObjectKey, tuple[str, ...]] = {}
        self._keys: dict[tuple[bytes, str], set[ObjectKey]] = {}
        """By repository, and kind of the row."""

    def put_row(self, key: ObjectKey, row: EngineResource) -> None:
        """Record the newest row of ``key``."""
        self.drop_row(key)
        urls = _urls_of(row) if row.kind in NAMING and row.desired == "present" else ()
        if urls:
            self._urls[key] = urls
        for url in urls:
            self._keys.setdefault((repository_of(url), key.kind), set()).add(key)

    def drop_row(self, key: ObjectKey) -> None:
        """Forget a row that is gone."""
        for url in self._urls.pop(key, ()):
            name = (repository_of(url), key.kind)
            others = self._keys.get(name, set())
            others.discard(key)
            if not others:
                self._keys.pop(name, None)

    def clear(self) -> None:
        """Forget all rows."""
        self._urls.clear()
        self._keys.clear()

    def keys_of(self, repository: bytes) -> list[ObjectKey]:
        """Keys of the rows that name the repository, sorted."""
        return sorted(key for kind in LIVE_KINDS for key in self.keys_of_kind(repository, kind))

    def keys_of_kind(self, repository: bytes, kind: str) -> Collection[ObjectKey]:
        """Keys of these rows with objects of this kind. Applications may be many; logins are few."""
        return self._keys.get((repository, kind), ())

    def urls_of(self, key: ObjectKey) -> tuple[str, ...]:
        """The URLs that ``key`` names."""
        return self._urls.get(key, ())


def source_repositories(project: object) -> list[str]:
    """The repositories in a spec of an AppProject."""
    found = project.get("sourceRepos") if isinstance(project, dict) else None
    return [url for url in found if isinstance(url, str)] if isinstance(found, list) else []


def _urls_of(row: EngineResource) -> tuple[str, ...]:
    try:
        return tuple(_strings(row))
    except Permanent:
        return ()  # who applies it says what is wrong with it


def _strings(row: EngineResource) -> Iterable[str]:
    manifest = manifest_of(row)
    if row.kind == RowKind.APP_PROJECT:
        return source_repositories(mapping(manifest, "spec"))
    url = source_url(manifest) if row.kind == RowKind.APPLICATION else mapping(manifest, "recipe").get("repository")
    return [url] if isinstance(url, str) and url else []
