"""Promotions: one run of an application at a time brings its snapshot from environment to environment.

A run waits for bindings, which watchers report, and for deployments, which agents report. So a step is taken with each
batch that changes one of these while a run is open, and when a run is due.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from services.common.messages import UnownedKind
from services.kinds.promotion_run.model import PROMOTION_RUN, PromotionRunSpec
from services.kinds.promotion_run.progress import (
    BindingOrder,
    SnapshotOrder,
    Surroundings,
)
from services.kinds.promotion_run.rows import accept, promotion_of, text_of, with_long_complete
from services.kinds.promotion_run.rules import Contender, Promotion, advance, runs_ahead
from services.kinds.shared.conditions import Refused
from services.kinds.shared.incarnation import refuse_resource
from services.kinds.shared.resource import Cause, PlainResource
from services.kinds.shared.unowned_objects import UnownedObject
from services.planner.domain.appstudio.outcomes import differs_by_kind
from services.planner.domain.appstudio.surroundings import LOOKED_AT, surroundings
from services.planner.domain.dormancy import long_complete_runs, may_have_more_waiting
from services.planner.domain.indexed_rows import index_of
from services.planner.domain.planned_tenant import Context, PlannedTenant
from services.planner.domain.state import COMPLETE_RUNS, OPEN_RUNS, RESOURCES_OVER_QUOTA
from services.planner.domain.steps.quotas import admit_resources
from services.planner.domain.steps.unowned_objects import UnownedRequest, reconcile_unowned_objects

Order = BindingOrder | SnapshotOrder
ROUNDS = 3
"""How often the runs of a tenant get room that others have left, within one plan. The next plan goes on."""
NEXT_PLAN = timedelta(seconds=1)
"""The time until that plan."""


class OpenRun(NamedTuple):
    """A run whose spec is accepted."""

    row: PlainResource
    spec: PromotionRunSpec
    promotion: Promotion

    @property
    def contender(self) -> Contender:
        """The values that decide whose turn it is."""
        row, is_active = self.row, self.promotion.state == "Active"
        return Contender(row.id, row.name, self.spec.application, row.created_at, is_active)

    def advanced(self, around: Surroundings, now: datetime, behind: str = "") -> tuple[OpenRun, tuple[Order, ...]]:
        """The run after the steps that it can take now, and what has to be done for it."""
        step = advance(self.spec, self.promotion, around, now, behind=behind)
        return self._replace(promotion=step.promotion), step.orders


@dataclass(frozen=True, slots=True)
class Advanced:
    """The open runs after their steps."""

    runs: tuple[OpenRun, ...]
    orders: tuple[tuple[PlainResource, Order], ...] = ()
    """What has to be done, each with its run."""


def plan_promotions(planned: PlannedTenant, context: Context) -> PlannedTenant:
    """The tenant with its promotions after their steps, and with the changes of bindings that they want.

    Complete runs make room within the quota for others. These begin in the same plan, or are due in a moment if the
    plan has had its rounds.
    """
    if planned.state.tenant.is_former or not _is_concerned(planned, context):
        return planned
    cause, now = planned.cause or context.last_event_cause, context.now
    for _ in range(ROUNDS):
        complete = index_of(planned.state.plain_resources, COMPLETE_RUNS).keys()
        planned = _promoted(planned, cause, context, now)
        if index_of(planned.state.plain_resources, COMPLETE_RUNS).keys() <= complete or not _waits_for_room(planned):
            return planned
        admitted = admit_resources(planned.state, context)
        planned = planned.with_state(admitted.state)
        for run in admitted.touched:
            planned = planned.touching(run, cause)
        if may_have_more_waiting(context.before, PROMOTION_RUN.kind) and not _waits_for_room(planned):
            break  # the next plan has the others
    for run in index_of(planned.state.plain_resources, OPEN_RUNS).keys() & set(admitted.touched):
        planned = planned.due_by(run, now + NEXT_PLAN)
    return planned


def _waits_for_room(planned: PlannedTenant) -> bool:
    beyond = index_of(planned.state.plain_resources, RESOURCES_OVER_QUOTA).values()
    return any(each.kind == PROMOTION_RUN.kind for each in beyond)


def _promoted(planned: PlannedTenant, cause: Cause, context: Context, now: datetime) -> PlannedTenant:
    planned, opened = _accepted(planned, context)
    advanced = _advanced(opened, surroundings(planned.state), now)
    for run in advanced.runs:
        planned = _with_run(planned, run, cause, now)
    forgotten = [with_long_complete(row) for row in long_complete_runs(planned.state)]
    planned = planned.with_state(planned.state.with_plain_resources(*forgotten))
    requests = [UnownedRequest(owner, _object(order)) for owner, order in advanced.orders]
    return reconcile_unowned_objects(planned, (PROMOTION_RUN.kind,), requests, cause, context)


def _is_concerned(planned: PlannedTenant, context: Context) -> bool:
    """Whether a run is open, or was, and something that it reads differs."""
    state, before = planned.state, context.before
    opened, were_open = index_of(state.plain_resources, OPEN_RUNS), index_of(before.plain_resources, OPEN_RUNS)
    if not opened and not were_open:
        return False
    if state.deployments is not before.deployments or state.statuses is not before.statuses:
        return True
    return any(run in planned.touched for run in opened) or differs_by_kind(state, context, LOOKED_AT)


def _accepted(planned: PlannedTenant, context: Context) -> tuple[PlannedTenant, list[OpenRun]]:
    """Open runs, the oldest first. Those that are refused show it, and get no turn."""
    accepted = []
    for row in sorted(index_of(planned.state.plain_resources, OPEN_RUNS).values(), key=lambda each: each.id):
        try:
            spec = accept(row, context.policy.limits)
        except Refused as why:
            planned = _with_row(planned, refuse_resource(row, why))
        else:
            planned = _with_row(planned, now := refuse_resource(row, None))
            accepted.append(OpenRun(now, spec, promotion_of(now)))
    return planned, accepted


def _with_row(planned: PlannedTenant, row: PlainResource) -> PlannedTenant:
    """The tenant with the row; nothing else is compiled."""
    state = planned.state
    return planned if state.plain_resources[row.id] == row else planned.with_state(state.with_plain_resources(row))


def _advanced(opened: Collection[OpenRun], around: Surroundings, now: datetime) -> Advanced:
    """Each run after its steps. When one is complete, the next of its application begins at once."""
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


def _with_run(planned: PlannedTenant, run: OpenRun, cause: Cause, now: datetime) -> PlannedTenant:
    """The tenant with a run as it is now. It is due when its time is over."""
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
