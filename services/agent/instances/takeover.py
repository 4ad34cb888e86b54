"""A take-over, from when the rows of an instance are loaded until all have been compared with what exists. No I/O.

Until then only rows that are newer than those loaded are worked on: changes that users make just now do not wait for
a list of everything. An object that is wanted can be created without the list, the API server says if it exists. What
needs the list waits: deletion looks for what uses the object, a login for who must not read with it, and so do
Applications of a tenant with logins of its own.
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
"""Of a manifest; the few that have it for another reason only come earlier."""


class Takeover:
    """Says what of one instance need not wait, and remembers what is asked for meanwhile."""

    def __init__(self, rows: Mapping[ObjectKey, EngineResource]) -> None:
        self._ahead: set[ObjectKey] = set()
        self._projects = defaultdict[str, set[ObjectKey]](set)
        self._with_logins: set[str] = set()
        """Lanes."""
        self._deferred: dict[ObjectKey, None] = {}
        self._released: set[ObjectKey] = set()
        for key, row in rows.items():
            self._note_row(key, row)
            if _is_released_at_once(key, row):
                self._released.add(key)

    def admit_row(self, key: ObjectKey, row: EngineResource) -> list[ObjectKey]:
        """``row`` is newer than what was loaded. Returns what may be worked on thereby: its AppProjects first."""
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
        """Applications that another instance has by now, while this one was out of reach: they go before all else.

        Whatever this Argo CD does with them meanwhile, it does beside the other one. What is to go later is
        admitted with its row.
        """
        self._ahead.update(self._released)
        return sorted(self._released)

    def defer_keys(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        """Those of ``keys`` that may be worked on now; the others are to be looked at once all has been compared."""
        admitted = []
        for key in keys:
            if key in self._ahead:
                admitted.append(key)
            else:
                self._deferred[key] = None
        return admitted

    @property
    def deferred(self) -> list[ObjectKey]:
        """What was asked for and had to wait."""
        return list(self._deferred)

    def _note_row(self, key: ObjectKey, row: EngineResource) -> None:
        if key.kind == APP_PROJECT.kind:
            projects = self._projects[row.lane]
            (projects.add if row.desired == "present" else projects.discard)(key)
        elif key.kind == SECRET.kind and row.desired == "present":
            self._with_logins.add(row.lane)


def _is_released_at_once(key: ObjectKey, row: EngineResource) -> bool:
    """Without parsing the manifest: there may be many."""
    return key.kind == APPLICATION.kind and MARK in row.manifest
