"""Bindings as promotion runs see them: what each has, and whether that is deployed. For ``surroundings``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple
from uuid import UUID

from services.common.errors import Permanent
from services.common.json_values import canonical, digest
from services.kinds.gitops_deployment.rows import Deployment
from services.kinds.promotion_run.model import PROMOTION_RUN
from services.kinds.promotion_run.progress import Before, BoundSnapshot, DeployedComponent
from services.kinds.promotion_run.rows import promotion_of
from services.kinds.promotion_run.rules import Step
from services.kinds.shared.projection import status_of
from services.kinds.shared.reconciled import Problem
from services.kinds.shared.resource import PlainResource
from services.kinds.snapshot_environment_binding.known import KnownBinding, known_binding
from services.kinds.snapshot_environment_binding.model import BINDING, BindingStatus, GitOpsRepository
from services.kinds.snapshot_environment_binding.named_commits import (
    NamedCommit,
    commit_identity,
    first_named,
    named_commits,
)
from services.kinds.snapshot_environment_binding.rules import deployment_name
from services.planner.domain.appstudio.bound_pairs import BY_PAIR, Pair, older_in_force, rivals
from services.planner.domain.child_deployments import state_named
from services.planner.domain.indexed_rows import Counts, Derived, index_of
from services.planner.domain.state import TenantState


class Reported(NamedTuple):
    """What the build service reports in the status of a binding. Statuses are long, so each version is parsed once."""

    components: Mapping[str, GitOpsRepository]
    """Where the manifests of each component are, without the list of them."""
    first_named: Mapping[str, NamedCommit]
    """The commits that it names, by their identities."""
    digest: str
    """The digest of all that it says about components."""
    generation: int | None
    """The generation of the binding that the build service handled last; None: it does not say."""

    @classmethod
    def by(cls, row: PlainResource) -> Reported | None:
        """The report in a row; None if the row is no binding."""
        if row.kind != BINDING.kind:
            return None
        status = _status(row)
        components, conditions = status.components or (), status.git_ops_repo_conditions
        return cls(
            {
                each.name: each.git_ops_repository.model_copy(update={"generated_resources": None})
                for each in components
            },
            first_named([named_commits(row)]),
            digest(canonical([each.model_dump(mode="json") for each in components])),
            conditions[-1].observed_generation if conditions else None,
        )


REPORTED: Derived[PlainResource, Reported] = Derived(Reported.by)
DEPLOYED: Counts[Deployment, str] = Counts(lambda known: known.name if known.present else None)
"""How many deployments of a name there are."""


class Bindings:
    """The bindings of a tenant. Each is read when a run asks for it."""

    def __init__(self, state: TenantState) -> None:
        self._state = state
        self._deployed = index_of(state.deployments, DEPLOYED)
        self._pairs = index_of(state.plain_resources, BY_PAIR)
        self._first_named = cache(self._earliest)

    def bound_snapshot(self, pair: Pair) -> BoundSnapshot | None:
        """The snapshot of the binding in force of a pair; None if none is in force."""
        row = self._in_force(pair)
        known = known_binding(row) if row is not None else None
        if row is None or known is None:
            return None
        problem, reported = Problem.shown_by(row), self._reported[row.id]
        seen, wanted = reported.generation, _wanted(reported.components, named_commits(row))
        components = (
            self._component(name, wanted.get(name), deployment) for name, deployment in _deployments(row, known).items()
        )
        return BoundSnapshot(
            name=row.name,
            snapshot=known.snapshot,
            components=tuple(components),
            uid=row.uid,
            reported=reported.digest,
            is_outdated=bool(seen) and seen is not None and seen < row.generation,
            is_current=bool(seen) and seen is not None and seen >= row.generation,
            problem=problem.message if problem is not None else "",
            before=self._before.get((row.name, known.snapshot)),
            images=self._images.get((row.name, known.snapshot), ""),
        )

    def components(self, application: str) -> frozenset[str]:
        """Names of the components of an application that any binding in force has."""
        return frozenset(name for _, known in self._of(application) for name in known.components)

    def revisions(self, application: str) -> frozenset[str]:
        """Revisions of components of an application, in all environments."""
        bound = self._of(application)
        names = (name for row, known in bound for name in _deployments(row, known).values() if name in self._deployed)
        return frozenset(revision for name in names if (revision := state_named(self._state, name).revision))

    def _of(self, application: str) -> Iterator[tuple[PlainResource, KnownBinding]]:
        """The bindings in force of an application."""
        rows = (self._in_force(pair) for pair in self._pairs if pair[0] == application)
        return ((row, known) for row in rows if row is not None and (known := known_binding(row)) is not None)

    def _in_force(self, pair: Pair) -> PlainResource | None:
        rows = rivals(self._state, pair)
        others = older_in_force(pair, rows)
        active = [row for row in rows.values() if row.id not in others and row.is_active]
        return max(active, key=lambda row: (row.created_at, row.id), default=None)

    @cached_property
    def _reported(self) -> Mapping[UUID, Reported]:
        return index_of(self._state.plain_resources, REPORTED)

    @cached_property
    def _before(self) -> Mapping[tuple[str, str], Before]:
        return {names: step.before for names, step in self._brought if step.before is not None}

    @cached_property
    def _images(self) -> Mapping[tuple[str, str], str]:
        return {names: step.images for names, step in self._brought if step.images}

    @cached_property
    def _brought(self) -> Sequence[tuple[tuple[str, str], Step]]:
        return [*_brought(self._state)]

    def _component(self, name: str, wanted: GitOpsRepository | None, deployment: str) -> DeployedComponent:
        commit = wanted.commit_id.strip() if wanted is not None else ""
        if deployment not in self._deployed:
            return DeployedComponent(name, "", commit=commit)
        shown = state_named(self._state, deployment)
        is_deployed = wanted is not None and self._is_deployed(wanted, shown.revision)
        return DeployedComponent(
            name, deployment, shown.sync, shown.health, shown.revision, commit, is_deployed, applied=shown.applied
        )

    def _is_deployed(self, wanted: GitOpsRepository, revision: str) -> bool:
        """Whether ``revision`` is the wanted commit, or a commit of its branch that was named later."""
        own, deployed = (commit_identity(wanted, each) for each in (wanted.commit_id, revision))
        if own == deployed:
            return True
        last, first = self._first_named(deployed), self._first_named(own)
        return last is not None and first is not None and last.is_later_than(first)

    def _earliest(self, identity: str) -> NamedCommit | None:
        """Where the commit was named first, by any binding."""
        named = (each.first_named for each in self._reported.values())
        return first_named({identity: each[identity]} for each in named if identity in each).get(identity)


def _deployments(row: PlainResource, known: KnownBinding) -> dict[str, str]:
    """By component, the names of the deployments of all components that a binding names."""
    return {name: deployment_name(row.name, known.application, known.environment, name) for name in known.components}


def _brought(state: TenantState) -> Iterator[tuple[tuple[str, str], Step]]:
    """For each binding and snapshot that a step has brought together, the step. Those of the newest run come last."""
    runs = (row for row in state.plain_resources_of_kind(PROMOTION_RUN.kind).values() if row.present and row.progress)
    for row in sorted(runs, key=lambda each: (each.created_at, each.name)):
        for step in promotion_of(row).steps:
            if step.status != "In Progress" and not step.is_recalled:
                yield (step.binding, row.refers_to), step


def _wanted(
    repositories: Mapping[str, GitOpsRepository], commits: Mapping[str, NamedCommit]
) -> dict[str, GitOpsRepository]:
    """For each component, the commit that it must have at least.

    This is its own commit, or the one that was named last for a component of the same branch, if that is newer: the
    newer commit may have changed this component, too.
    """
    named = {component: each for component, each in commits.items() if component in repositories}
    newest: dict[tuple[str, str], str] = {}
    for component, _ in sorted(named.items(), key=lambda each: each[1].order):
        newest[repositories[component].url, repositories[component].branch] = component
    wanted = dict(repositories)
    for component, own in named.items():
        last = newest[repositories[component].url, repositories[component].branch]
        if own.order[:2] != named[last].order[:2]:
            wanted[component] = repositories[last]
    return wanted


def _status(row: PlainResource) -> BindingStatus:
    """What the build service reports about a binding; empty if that cannot be read."""
    try:
        return status_of(BindingStatus, row)
    except Permanent:
        return BindingStatus()
