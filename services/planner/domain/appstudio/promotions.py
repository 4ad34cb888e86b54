"""Promotions: one run of an application at a time brings its snapshot from environment to environment.

What a run waits for is told by others: bindings by commands, deployments by agents. So the step is taken with every
batch that changes one of these while a run is open, and when a run is due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from services.common.errors import Permanent
from services.common.json_values import canonical, digest
from services.common.messages import UnownedKind
from services.kinds.application.kind import APPLICATION
from services.kinds.component.model import COMPONENT, ComponentSpec
from services.kinds.environment.expiry import remaining_of
from services.kinds.environment.model import ENVIRONMENT, EnvironmentSpec
from services.kinds.environment.rules import parent_cycles
from services.kinds.promotion_run.model import PROMOTION_RUN, PromotionRunSpec
from services.kinds.promotion_run.progress import (
    Before,
    BindingOrder,
    BoundSnapshot,
    DeployedComponent,
    SnapshotOrder,
    Surroundings,
)
from services.kinds.promotion_run.rows import accept, is_open, promotion_of, text_of
from services.kinds.promotion_run.rules import Contender, Promotion, advance, runs_ahead
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.projection import status_of
from services.kinds.shared.reconciled import Problem
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.shared.spec_text import SpecT, readable_spec
from services.kinds.shared.unowned_objects import UnownedObject
from services.kinds.snapshot.model import SNAPSHOT, SnapshotSpec, images_of
from services.kinds.snapshot_environment_binding.model import BINDING, BindingSpec, BindingStatus, GitOpsRepository
from services.kinds.snapshot_environment_binding.named_commits import (
    NamedCommit,
    commit_identity,
    first_named,
    named_commits,
)
from services.kinds.snapshot_environment_binding.rules import Rival, deployment_name, older_bindings
from services.planner.domain.appstudio.outcomes import differs_by_kind
from services.planner.domain.child_deployments import state_named
from services.planner.domain.events import Event
from services.planner.domain.indexed_rows import Subset, index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import TenantState
from services.planner.domain.steps.unowned_objects import UnownedRequest, tend_unowned_objects

LOOKED_AT = (
    PROMOTION_RUN.kind,
    BINDING.kind,
    ENVIRONMENT.kind,
    SNAPSHOT.kind,
    APPLICATION.kind,
    COMPONENT.kind,
)
OPEN: Subset[PlainResource] = Subset(is_open)
"""Runs that may go on."""

Order = BindingOrder | SnapshotOrder


class OpenRun(NamedTuple):
    """A run whose spec is accepted."""

    row: PlainResource
    spec: PromotionRunSpec
    promotion: Promotion

    @property
    def contender(self) -> Contender:
        """What decides whose turn it is."""
        row, is_active = self.row, self.promotion.state == "Active"
        return Contender(row.id, row.name, self.spec.application, row.created_at, is_active)

    def advanced(self, around: Surroundings, now: datetime, behind: str = "") -> tuple[OpenRun, tuple[Order, ...]]:
        """The run as far as it comes now, and what has to be done for it."""
        step = advance(self.spec, self.promotion, around, now, behind=behind)
        return self._replace(promotion=step.promotion), step.orders


@dataclass(frozen=True, slots=True)
class Advanced:
    """What has become of the open runs."""

    runs: tuple[OpenRun, ...]
    orders: tuple[tuple[PlainResource, Order], ...] = ()
    """With the run that wants it."""


def plan_promotions(planned: PlannedTenant, events: Sequence[Event], context: Context, now: datetime) -> PlannedTenant:
    """The tenant with what its promotions have come to, and with what they want changed of bindings."""
    if planned.state.tenant.is_former or not _is_concerned(planned, context):
        return planned
    cause = planned.cause or events[-1].cause(now)
    planned, opened = _accepted(planned, context)
    advanced = _advanced(opened, surroundings(planned.state), now)
    for run in advanced.runs:
        planned = _kept(planned, run, cause, now)
    requests = [UnownedRequest(owner, _object(order)) for owner, order in advanced.orders]
    return tend_unowned_objects(planned, (PROMOTION_RUN.kind,), requests, cause, context)


def surroundings(state: TenantState) -> Surroundings:
    """What the tenant has of what its runs name."""
    named = [(row, spec) for row, spec in _rows(state, ENVIRONMENT.kind, EnvironmentSpec) if row.present]
    expired = frozenset(row.name for row, _ in named if remaining_of(row) is not None)
    environments = {row.name: spec for row, spec in named if row.name not in expired}
    parents = {name: spec.parent_environment or "" for name, spec in environments.items()}
    bindings = [(row, spec) for row, spec in _rows(state, BINDING.kind, BindingSpec) if row.present]
    present = [row for row in state.plain_resources_of_kind(SNAPSHOT.kind).values() if row.present]
    snapshots = dict(_specs(state, SNAPSHOT.kind, SnapshotSpec))
    return Surroundings(
        applications=_applications(state),
        snapshots={name: spec.application for name, spec in snapshots.items()},
        images={name: images_of(snapshots[name]) for name in _compared(state, bindings) if name in snapshots},
        beyond_quota=frozenset(row.name for row in present if row.over_quota),
        expired=expired,
        parents=parents,
        automated=frozenset(
            name for name, spec in environments.items() if spec.deployment_strategy == "AppStudioAutomated"
        ),
        on_cycles=frozenset(parent_cycles({name: parent for name, parent in parents.items() if parent})),
        bindings=_bound(state, bindings),
        binding_names=frozenset(row.name for row, _ in bindings),
    )


def _compared(state: TenantState, bindings: Collection[tuple[PlainResource, BindingSpec]]) -> set[str]:
    """The snapshots that bindings have, and those that open runs bring to them."""
    brought = {row.refers_to for row in index_of(state.plain_resources, OPEN).values()}
    return brought | {spec.snapshot for _, spec in bindings}


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    """Whether a run is open, or was, and anything differs that it looks at."""
    state, before = planned.state, context.before
    opened, were_open = index_of(state.plain_resources, OPEN), index_of(before.plain_resources, OPEN)
    if not opened and not were_open:
        return False
    if state.deployments is not before.deployments or state.statuses is not before.statuses:
        return True
    return any(run in planned.touched for run in opened) or differs_by_kind(state, context, LOOKED_AT)


def _accepted(planned: PlannedTenant, context: Context) -> tuple[PlannedTenant, list[OpenRun]]:
    """Open runs, the oldest first; those that are refused say so, and have no turn."""
    accepted = []
    for row in sorted(index_of(planned.state.plain_resources, OPEN).values(), key=lambda each: each.id):
        try:
            spec = accept(row, context.policy.limits)
        except Refused as why:
            planned = _with_row(planned, refuse_resource(row, why))
        else:
            planned = _with_row(planned, now := refuse_resource(row, None))
            accepted.append(OpenRun(now, spec, promotion_of(now)))
    return planned, accepted


def _with_row(planned: PlannedTenant, row: PlainResource) -> PlannedTenant:
    """Nothing else follows from it."""
    state = planned.state
    return planned if state.plain_resources[row.id] == row else planned.with_state(state.with_plain_resources(row))


def _advanced(opened: Collection[OpenRun], around: Surroundings, now: datetime) -> Advanced:
    """Each run as far as it comes; one that is complete makes room for the next one at once."""
    runs, orders = list[OpenRun](), list[tuple[PlainResource, Order]]()
    pending = list(opened)
    while pending:
        ahead = runs_ahead(run.contender for run in pending)
        in_turn = [run.advanced(around, now) for run in pending if run.row.id not in ahead]
        busy = {run.spec.application for run, _ in in_turn if run.promotion.state != "Complete"}
        waiting = [run for run in pending if run.row.id in ahead]
        runs += [run for run, _ in in_turn]
        runs += [run.advanced(around, now, ahead[run.row.id])[0] for run in waiting if run.spec.application in busy]
        orders += [(run.row, order) for run, wanted in in_turn for order in wanted]
        pending = [run for run in waiting if run.spec.application not in busy]
    return Advanced(tuple(runs), tuple(orders))


def _kept(planned: PlannedTenant, run: OpenRun, cause: Cause, now: datetime) -> PlannedTenant:
    """The tenant with a run as it is now, which is looked at again when its time is over."""
    planned = _with_row(planned, replace(run.row, progress=text_of(run.promotion)))
    if run.row.id not in planned.touched:
        planned = planned.touching(run.row.id, cause)
    due = run.promotion.due_after(now)
    return planned.due_by(run.row.id, due) if due is not None else planned


def _object(order: Order) -> UnownedObject:
    if isinstance(order, SnapshotOrder):
        return UnownedObject(UnownedKind.BINDING, order.binding, order.uid, spec={"snapshot": order.snapshot})
    spec = order.spec.model_dump(by_alias=True, exclude_none=True)
    return UnownedObject(UnownedKind.BINDING, order.name, spec=spec, labels=order.labels)


def _applications(state: TenantState) -> dict[str, tuple[str, ...]]:
    """Components of each, by the names that the build service has for them."""
    present = state.plain_resources_of_kind(APPLICATION.kind).values()
    found: dict[str, set[str]] = {row.name: set() for row in present if row.is_active and not row.over_quota}
    for row, spec in _rows(state, COMPONENT.kind, ComponentSpec):
        if row.is_active and spec.application in found:
            found[spec.application].add(spec.component_name or row.name)
    return {name: tuple(sorted(components)) for name, components in found.items()}


def _bound(
    state: TenantState, bindings: Collection[tuple[PlainResource, BindingSpec]]
) -> dict[tuple[str, str], BoundSnapshot]:
    """Bindings that are in force, by application and environment."""
    rivals = [Rival(row.id, row.name, row.created_at, spec.application, spec.environment) for row, spec in bindings]
    others = older_bindings(rivals)
    deployments = {each.name for each in state.deployments.values() if each.present}
    named, before = first_named(state.plain_resources_of_kind(BINDING.kind).values()), _before_runs(state)
    bound = {
        (spec.application, spec.environment): replace(
            _bound_snapshot(row, spec, deployments, named, state), before=before.get((row.name, spec.snapshot))
        )
        for row, spec in bindings
        if row.id not in others and row.is_active
    }
    shown: dict[str, set[str]] = defaultdict(set)
    for (application, _), each in bound.items():
        shown[application].update(component.revision for component in each.components if component.revision)
    return {pair: replace(each, shown=frozenset(shown[pair[0]])) for pair, each in bound.items()}


def _before_runs(state: TenantState) -> dict[tuple[str, str], Before]:
    """What there was before the newest run that brought a snapshot to a binding, by the names of these."""
    runs = (row for row in state.plain_resources_of_kind(PROMOTION_RUN.kind).values() if row.present and row.progress)
    return {
        (step.binding, row.refers_to): step.before
        for row in sorted(runs, key=lambda each: (each.created_at, each.name))
        for step in promotion_of(row).steps
        if step.before is not None and step.status != "In Progress"
    }


def _bound_snapshot(
    row: PlainResource,
    spec: BindingSpec,
    deployments: Collection[str],
    named: Mapping[str, NamedCommit],
    state: TenantState,
) -> BoundSnapshot:
    problem = Problem.shown_by(row)
    reported = _reported(row)
    seen = reported.git_ops_repo_conditions[-1].observed_generation if reported.git_ops_repo_conditions else None
    wanted = _wanted(row, reported)
    names = {
        each.name: deployment_name(row.name, spec.application, spec.environment, each.name) for each in spec.components
    }
    components = [
        _deployed(component, wanted.get(component), name if name in deployments else "", named, state)
        for component, name in names.items()
    ]
    return BoundSnapshot(
        name=row.name,
        snapshot=spec.snapshot,
        components=tuple(components),
        uid=row.uid,
        reported=digest(canonical([each.model_dump(mode="json") for each in reported.components or ()])),
        is_outdated=bool(seen) and seen is not None and seen < row.generation,
        is_current=bool(seen) and seen is not None and seen >= row.generation,
        problem=problem.message if problem is not None else "",
    )


def _wanted(row: PlainResource, reported: BindingStatus) -> dict[str, GitOpsRepository]:
    """The commit that each component shall have at least: its own if that is as new as any that the binding names.

    A component of which none was named when the newest one was may have been changed since its own, or not.
    """
    repositories = {each.name: each.git_ops_repository for each in reported.components or ()}
    named = {component: each for component, each in named_commits(row).items() if component in repositories}
    newest: dict[tuple[str, str], str] = {}
    for component, _ in sorted(named.items(), key=lambda each: each[1].order):
        newest[repositories[component].url, repositories[component].branch] = component
    wanted = dict(repositories)
    for component, own in named.items():
        last = newest[repositories[component].url, repositories[component].branch]
        if own.order[:2] != named[last].order[:2]:
            wanted[component] = repositories[last]
    return wanted


def _reported(row: PlainResource) -> BindingStatus:
    """What the build service says of a binding; nothing if that cannot be read."""
    try:
        return status_of(BindingStatus, row)
    except Permanent:
        return BindingStatus()


def _deployed(
    name: str,
    wanted: GitOpsRepository | None,
    deployment: str,
    named: Mapping[str, NamedCommit],
    state: TenantState,
) -> DeployedComponent:
    commit = wanted.commit_id.strip() if wanted is not None else ""
    if not deployment:
        return DeployedComponent(name, "", commit=commit)
    shown = state_named(state, deployment)
    is_deployed = wanted is not None and _is_deployed(wanted, shown.revision, named)
    return DeployedComponent(
        name, deployment, shown.sync, shown.health, shown.revision, commit, is_deployed, applied=shown.applied
    )


def _is_deployed(wanted: GitOpsRepository, revision: str, named: Mapping[str, NamedCommit]) -> bool:
    """Whether ``revision`` is the commit that is wanted, or one of its branch that was named later."""
    own, deployed = (commit_identity(wanted, each) for each in (wanted.commit_id, revision))
    if own == deployed:
        return True
    return own in named and deployed in named and named[deployed].is_later_than(named[own])


def _specs(state: TenantState, kind: str, model: type[SpecT]) -> Iterator[tuple[str, SpecT]]:
    """Of those that exist and count, by name."""
    return ((row.name, spec) for row, spec in _rows(state, kind, model) if row.present)


def _rows(state: TenantState, kind: str, model: type[SpecT]) -> Iterator[tuple[PlainResource, SpecT]]:
    """Resources within the quotas whose specs can be read."""
    for row in state.plain_resources_in_order(kind):
        if (spec := readable_spec(model, row)) is not None:
            yield row, spec
