"""Which commits the status of a binding names, and in which order: what its row remembers, in ``progress``.

The components of an application share one branch, and bindings of other environments do, too. The build service pushes
one commit for each component, one after the other, and an engine deploys the newest. So a component is deployed with
its commit, or with one that was pushed later: the branch only moves on. No repository is read here. The build service
names a commit once it has pushed it, and serves one binding after the other, so commits are named in the order in which
they were pushed: by the version of the binding that named them first, and within one version by the order of its
components.

The order is kept here and nowhere else. A binding that is new here though it has existed for longer, because the
database was lost, names commits of which nobody knows since when: these are later than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from services.common.errors import Permanent
from services.common.json_values import canonical, digest
from services.kinds.shared.incarnation import version_order
from services.kinds.shared.projection import status_of
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.text import MAX_COMPONENTS, MAX_LABEL
from services.kinds.snapshot_environment_binding.known import known_binding
from services.kinds.snapshot_environment_binding.model import BindingStatus, GitOpsRepository
from services.kinds.snapshot_environment_binding.remembered import remembered, with_remembered

NAMED_COMMITS = "namedCommits"
"""Member of ``progress``."""
NEW = timedelta(minutes=1)
"""A binding that is younger when it is first seen has named its commits just now."""

NO_PLACE = -1
"""Place of a component that the spec does not name. It counts as the first, because its order is unknown."""


@dataclass(frozen=True, slots=True)
class NamedCommit:
    """A commit that a binding names for one of its components."""

    identity: str
    """Identifies repository, branch and commit."""
    order: tuple[int, int, int]
    """Epoch and version of the binding when it first named the commit, and the component's place in its spec."""
    is_ordered: bool
    """Whether it was named exactly then. Otherwise it was then, or any time before."""

    def is_later_than(self, other: NamedCommit) -> bool:
        """Whether it is known to have been named after ``other``."""
        return self.is_ordered and self.order > other.order


def commit_identity(repository: GitOpsRepository, commit: str) -> str:
    """Identity of a commit. It may end with a line feed, as git prints names."""
    return digest(canonical([repository.url, repository.branch, commit.strip()]))


def with_named_commits(row: PlainResource) -> PlainResource:
    """The row of a binding with the commits that its status names now.

    A commit that it named before keeps its order. If the status is invalid, nothing is forgotten: otherwise commits
    would seem to be named anew afterwards.
    """
    known = known_binding(row)
    try:
        reported = status_of(BindingStatus, row)
    except Permanent:
        return row
    if known is None:
        return row
    places, before = {name: place for place, name in enumerate(known.components)}, named_commits(row)
    is_ordered = remembered(row, NAMED_COMMITS) is not None or _is_new(row)
    now = {}
    for component, identity in _named(reported):
        commit = before.get(component)
        if commit is None or commit.identity != identity:
            order = (row.epoch, version_order(row.resource_version), places.get(component, NO_PLACE))
            commit = NamedCommit(identity, order, is_ordered)
        now[component] = [commit.identity, *commit.order, commit.is_ordered]
    return with_remembered(row, NAMED_COMMITS, now)


def named_commits(row: PlainResource) -> Mapping[str, NamedCommit]:
    """The commits in the row of a binding, by component."""
    kept: Mapping[str, tuple[str, int, int, int, bool]] = remembered(row, NAMED_COMMITS) or {}
    return {
        component: NamedCommit(identity, (epoch, version, place), is_ordered)
        for component, (identity, epoch, version, place, is_ordered) in kept.items()
    }


def first_named(bindings: Iterable[Mapping[str, NamedCommit]]) -> dict[str, NamedCommit]:
    """For each commit, by its identity, where it was first named. Naming it again does not make it later."""
    found: dict[str, NamedCommit] = {}
    for each in (named for binding in bindings for named in binding.values()):
        known = found.get(each.identity)
        if known is None or (each.order, each.is_ordered) < (known.order, known.is_ordered):
            found[each.identity] = each
    return found


def _named(reported: BindingStatus) -> list[tuple[str, str]]:
    """Component and commit. Anything beyond the bounds belongs to no deployed component."""
    repositories = [(each.name, each.git_ops_repository) for each in (reported.components or ())[:MAX_COMPONENTS]]
    return [
        (name, commit_identity(repository, repository.commit_id))
        for name, repository in repositories
        if len(name) <= MAX_LABEL and repository.commit_id.strip()
    ]


def _is_new(row: PlainResource) -> bool:
    return row.seen_at - datetime.fromtimestamp(row.created_at / 1000, UTC) <= NEW
