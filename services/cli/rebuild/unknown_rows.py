"""Finds what the topics of the compiled tables hold and no row has: Applications, say, that nobody asks for any more.

``rebuild sweep`` withdraws it. :func:`find_unknown` reads topics and tables, and divides what it finds:

- What may be wanted is kept: all of a tenant that the database may not know everything of, and all of a workspace that
  was not added. An operator approves by name what goes all the same.
- All else goes, unless an instance or a workspace would lose an implausible share (:meth:`Unknown.refused`).

Called by :mod:`rebuild`, which gives what goes to :mod:`withdrawal`. Nothing is written here.
"""

from __future__ import annotations

from collections import ChainMap, Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.cli.database_connection import connected
from services.cli.guards.approvals import name_of
from services.cli.rebuild.streamed_topics import Key, StreamedTopics, child_rows, claim_rows, engine_rows, status_rows
from services.common.json_values import canonical, digest
from services.common.messages import EngineResource, PendingClaim, WorkspaceObject, WorkspaceResource
from services.kinds.registry import REGISTRY
from services.planner.domain.policy import SweepGuard
from services.planner.rows.compiled import UNOWNED

CompiledRow = EngineResource | WorkspaceResource | WorkspaceObject | PendingClaim

SHOWN = 100
"""Keys that are listed one by one."""

UNCERTAIN = """
SELECT workspace || '/' || namespace FROM parked_tenants
 UNION
SELECT workspace || '/' || namespace FROM tenants
 WHERE id IN (SELECT tenant_id FROM deployments WHERE present AND spec IS NULL
               UNION ALL
              SELECT tenant_id FROM resources
               WHERE present AND kind = ANY(%s)
                 AND NOT EXISTS (SELECT FROM engine_resources WHERE owner_id = resources.id))
"""


@dataclass(frozen=True, slots=True)
class Removal:
    """The keys that an instance, a workspace or a tenant would lose. Its name has their digest: approvals are exact."""

    place: str
    keys: tuple[Key, ...] = ()

    @property
    def digest(self) -> str:
        """A digest of the keys, the same in whatever order they were found."""
        return digest(canonical(sorted(self.keys)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """What topics hold and no row has."""

    objects: Mapping[Key, EngineResource]
    statuses: Mapping[Key, WorkspaceResource]
    row_counts: Mapping[str, int]
    """How many rows there are, of each instance and workspace."""
    children: Mapping[Key, WorkspaceObject] = field(default_factory=dict)
    claims: Mapping[Key, PendingClaim] = field(default_factory=dict)

    @property
    def count(self) -> str:
        """How many there are of each, in words."""
        return (
            f"{len(self.objects)} objects, {len(self.statuses)} statuses, {len(self.children)} child objects and "
            f"{len(self.claims)} pending claims"
        )

    @property
    def keys(self) -> list[Key]:
        """All keys, of whatever topic."""
        return [*self.objects, *self.statuses, *self.children, *self.claims]

    def described(self, what: str) -> Iterator[str]:
        """Lines for operators, the first with the counts and ``what`` these are."""
        yield f"{self.count} {what}"
        for number, (scope, kind, namespace, name) in enumerate(self.keys):
            if number == SHOWN:
                yield f"… and {len(self.keys) - SHOWN} more"
                return
            yield f"{scope}: {kind} {namespace}/{name}"

    def __bool__(self) -> bool:
        return bool(self.keys)

    def refused(self, guard: SweepGuard, approved: Collection[str]) -> dict[Removal, str]:
        """Removals from instances and workspaces that are too large and not ``approved`` by name, with the reasons."""
        owned = (key for key in self.children if key[2] not in UNOWNED)  # neither what is unowned nor a claim loses
        removals = removals_of((key[0], key) for key in (*self.objects, *self.statuses, *owned))
        counts = {each: (len(each.keys), len(each.keys) + self.row_counts.get(each.place, 0)) for each in removals}
        return {
            each: f"it would lose {count} of {total}"
            for each, (count, total) in counts.items()
            if name_of(each) not in approved and not guard.allows(count, total)
        }

    def divided(self, is_kept: Callable[[CompiledRow], bool]) -> tuple[Unknown, Unknown]:
        """What is withdrawn, and what is kept."""
        return self._part(lambda row: not is_kept(row)), self._part(is_kept)

    def _part(self, wanted: Callable[[CompiledRow], bool]) -> Unknown:
        return Unknown(
            {key: row for key, row in self.objects.items() if wanted(row)},
            {key: row for key, row in self.statuses.items() if wanted(row)},
            self.row_counts,
            {key: row for key, row in self.children.items() if wanted(row)},
            {key: row for key, row in self.claims.items() if wanted(row)},
        )


class Sweep(NamedTuple):
    """What a sweep withdraws, and what it keeps."""

    withdrawn: Unknown
    kept: Unknown
    kept_for: tuple[Removal, ...] = ()
    """What is kept, by the tenant or workspace that is the reason; and all workspaces that were not waited for."""


def removals_of(keys: Iterable[tuple[str, Key]]) -> tuple[Removal, ...]:
    """One removal for each place, with the keys that it loses."""
    lost = defaultdict[str, list[Key]](list)
    for place, key in keys:
        lost[place].append(key)
    return tuple(Removal(place, tuple(found)) for place, found in sorted(lost.items()))


def divide(
    unknown: Unknown, kept_as: Callable[[CompiledRow], str], approved: Collection[str], unlisted: Collection[str]
) -> Sweep:
    """Divide ``unknown`` into what is withdrawn, and what is kept because it is not ``approved`` by name.

    ``unlisted``: workspaces that were not waited for.
    """
    rows: list[Mapping[Key, CompiledRow]] = [unknown.objects, unknown.statuses, unknown.children, unknown.claims]
    kept = removals_of((place, key) for each in rows for key, row in each.items() if (place := kept_as(row)))
    without_rows = {*unlisted} - {each.place for each in kept}
    kept_for = [each for each in (*kept, *map(Removal, sorted(without_rows))) if name_of(each) not in approved]
    places = {each.place for each in kept_for}
    return Sweep(*unknown.divided(lambda row: kept_as(row) in places), tuple(kept_for))


def kept_as(row: CompiledRow, uncertain: Collection[str], workspaces: Collection[str]) -> str:
    """The tenant or workspace that ``row`` is kept for; empty: it is withdrawn.

    Args:
        row: what a topic holds and no row has.
        uncertain: tenants that the database may not know everything of, as ``workspace/namespace``.
        workspaces: the workspaces that were added.
    """
    tenant = row.tenant if isinstance(row, EngineResource) else f"{row.workspace}/{row.namespace}"
    if tenant in uncertain:
        return tenant
    return "" if row.workspace in workspaces else row.workspace


def find_unknown(
    url: str, topics: StreamedTopics, workspaces: Sequence[str], approved: Collection[str], unlisted: Collection[str]
) -> Sweep:
    """What is withdrawn, and what is kept because it is not ``approved`` by name. Raises Retry.

    The topics are read between two looks at the tables, so that a row that comes or goes meanwhile is not taken for
    unknown. Uncertain tenants are read before the second look: that shows the rows of one that is planned in between.
    """
    objects, statuses, children, claims = _rows(url, workspaces)
    unknown_objects = topics.unknown_objects(objects)
    unknown_statuses = [topics.unknown_statuses(name, statuses) for name in workspaces]
    unknown_children = [topics.unknown_children(name, children) for name in workspaces]
    unknown_claims = topics.unknown_claims(claims)
    uncertain = uncertain_tenants(url)
    objects, statuses, children, claims = _rows(url, workspaces)
    found = Unknown(
        {key: row for key, row in unknown_objects.items() if key not in objects},
        {key: row for found in unknown_statuses for key, row in found.items() if key not in statuses},
        Counter(key[0] for key in (*objects, *statuses, *children)),
        {key: row for found in unknown_children for key, row in found.items() if key not in children},
        {key: row for key, row in unknown_claims.items() if key not in claims},
    )
    return divide(found, lambda row: kept_as(row, uncertain, workspaces), approved, unlisted)


def uncertain_tenants(url: str) -> set[str]:
    """Tenants that the database may not know everything of, as ``workspace/namespace``. Raises Retry."""
    kinds = [kind.name for kind in REGISTRY.plain_kinds if kind.connections is not None]
    with connected(url) as connection:
        return {name for (name,) in connection.execute(UNCERTAIN, [kinds])}


def _rows(url: str, workspaces: Sequence[str]) -> tuple[Mapping[Key, str], ...]:
    """The rows of engines, statuses, child objects and pending claims."""
    with connected(url) as connection:
        statuses = ChainMap(*(status_rows(connection, name) for name in workspaces))
        children = ChainMap(*(child_rows(connection, name) for name in workspaces))
        return engine_rows(connection), statuses, children, claim_rows(connection)
