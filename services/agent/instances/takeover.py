"""A take-over: from the loading of an instance's rows until all of them were compared with what exists. No I/O.

Until then only rows that are newer than the loaded ones are worked on, so that changes which users make now need not
wait for a list of everything. An object can be created without the list, because the API server says if it exists.
These need the list and wait: a deletion, which looks for what uses the object; a login, which must not open a
repository for others; and Applications of a tenant with logins of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from services.agent.objects.managed_kinds import ObjectKey
from services.common.kubernetes import APP_PROJECT, APPLICATION, SECRET
from services.common.messages import EngineResource
from services.common.messages.compiled import AT_ONCE

AHEAD = (APP_PROJECT.kind, APPLICATION.kind)
MARK = f'"{AT_ONCE}":true'
"""Part of a manifest. The few other manifests that contain it are only handled earlier."""


class Takeover:
    """Decides which rows of one instance need not wait, and remembers the others."""

    def __init__(self, rows: Mapping[ObjectKey, EngineResource]) -> None:
        self._ahead: set[ObjectKey] = set()
        self._projects = defaultdict[str, set[ObjectKey]](set)
        self._with_logins: set[str] = set()
        """Lanes of tenants with logins."""
        self._deferred: dict[ObjectKey, None] = {}
        self._released: set[ObjectKey] = set()
        for key, row in rows.items():
            self._note_row(key, row)
            if _is_released_at_once(key, row):
                self._released.add(key)

    def admit_row(self, key: ObjectKey, row: EngineResource) -> list[ObjectKey]:
        """Accept a row that is newer than the loaded ones.

        Returns which keys may be worked on now, AppProjects first.
        """
        self._note_row(key, row)
        self._ahead.discard(key)
        if _is_released_at_once(key, row):
            self._ahead.add(key)
            return [key]
        if row.desired == "absent" or key.kind not in AHEAD or row.lane in self._with_logins:
            return []
        ahead = [*sorted(self._projects[row.lane]), key]
        self._ahead.update(ahead)
        return ahead

    def admit_releases(self) -> list[ObjectKey]:
        """Applications that another instance has taken over while this one was unreachable.

        They go before everything else.

        Until they are released, two Argo CDs work on what they have deployed. An Application that is to be released
        later is admitted with its row.
        """
        self._ahead.update(self._released)
        return sorted(self._released)

    def defer_keys(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        """Those of ``keys`` that may be worked on now. The others are remembered until all has been compared."""
        admitted = []
        for key in keys:
            if key in self._ahead:
                admitted.append(key)
            else:
                self._deferred[key] = None
        return admitted

    @property
    def deferred(self) -> list[ObjectKey]:
        """The keys that had to wait."""
        return list(self._deferred)

    def _note_row(self, key: ObjectKey, row: EngineResource) -> None:
        if key.kind == APP_PROJECT.kind:
            projects = self._projects[row.lane]
            (projects.add if row.desired == "present" else projects.discard)(key)
        elif key.kind == SECRET.kind and row.desired == "present":
            self._with_logins.add(row.lane)


def _is_released_at_once(key: ObjectKey, row: EngineResource) -> bool:
    """Whether the row says so. Does not parse the manifest, because there may be many."""
    return key.kind == APPLICATION.kind and MARK in row.manifest
