"""The course of a PromotionRun: whose turn it is, level by level, until it has succeeded or its time is over.

Steps only go forward, and nothing that was promoted is taken back: a run that fails, or is deleted, leaves the bindings
as they are. The current time, and the end of a step's time, are values: nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from services.kinds.promotion_run import catalogue as texts
from services.kinds.promotion_run.model import PromotionRunSpec
from services.kinds.promotion_run.progress import (
    Before,
    BindingOrder,
    BoundSnapshot,
    Progress,
    SnapshotOrder,
    Surroundings,
    judged_by_branch,
    progress,
    unanswered,
    unchanged_components,
)
from services.kinds.snapshot.images import images_digest

TIME_FOR_A_STEP = timedelta(minutes=texts.MINUTES)
LATE_LOOK = timedelta(seconds=15)
"""A step is looked at when its time is over. If that happens so much later, no planner was running for a while."""
TIME_AFTER_LATE_LOOK = timedelta(minutes=2)
"""Time to read what others have reported meanwhile, and for them to report what they could not."""
TIME_TO_ANSWER = timedelta(minutes=1)
"""Time for a build service that does not report which spec it has seen to write a snapshot's changes."""
TIME_TO_NOTICE = timedelta(minutes=6)
"""Time for an engine after that: Argo CD compares every three minutes, with a branch as it was up to three minutes
before."""

StepStatus = Literal["In Progress", "Success", "Failed"]
Order = BindingOrder | SnapshotOrder


@dataclass(frozen=True, slots=True)
class Step:
    """The promotion to one environment."""

    environment: str
    level: int
    """Distance from the first environment, which has 0. Environments of a level are promoted to at the same time."""
    due_at: datetime
    """When it fails, unless it has succeeded, or failed before because it never can."""
    status: StepStatus = "In Progress"
    display: str = ""
    binding: str = ""
    before: Before | None = None
    """The state when the binding got the snapshot, from this run or an earlier one; None: it always had it."""
    is_recalled: bool = False
    """Whether only its status shows it, because the database was lost. ``before`` is then the state when it was seen
    again."""
    answer_due: datetime | None = None
    """When the binding counts as answered even without a change; None: it does not have the snapshot yet."""
    error: str = ""
    """What the user has to fix, or had to when it failed."""
    images: str = ""
    """Digest of the images of the snapshot that the binding has or gets; empty: unknown."""

    @property
    def times(self) -> tuple[datetime, ...]:
        """When to look at it without an event."""
        due = self.answer_due
        return (self.due_at,) if due is None else (self.due_at, due, due + TIME_TO_NOTICE)


@dataclass(frozen=True, slots=True)
class Promotion:
    """The progress of a run, which its row stores."""

    state: Literal["Waiting", "Active", "Complete"] = "Waiting"
    result: Literal["", "Success", "Failure"] = ""
    started_at: datetime | None = None
    steps: tuple[Step, ...] = ()
    behind: str = ""
    """Name of the run of the same application that it waits for."""
    error: str = ""
    """The first environment's error that the user has to fix, or the one that has made the run fail."""

    def due_after(self, now: datetime) -> datetime | None:
        """When to look at it again without an event."""
        waiting = [step for step in self.steps if step.status == "In Progress"]
        return min((time for step in waiting for time in step.times if time > now), default=None)

    @property
    def active_bindings(self) -> tuple[str, ...]:
        """The bindings of the newest level."""
        last = self.steps[-1].level if self.steps else 0
        return tuple(sorted(step.binding for step in self.steps if step.level == last and step.binding))


@dataclass(frozen=True, slots=True)
class Advance:
    """What follows from a run."""

    promotion: Promotion
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True)
class Contender:
    """What decides whose turn it is among incomplete runs."""

    id: UUID
    name: str
    application: str
    created_at: int
    """Milliseconds since 1970."""
    is_active: bool


def runs_ahead(contenders: Iterable[Contender]) -> dict[UUID, str]:
    """For each run that has to wait, the name of the run whose turn it is: one at a time for each application.

    A run that has begun continues, even if an older one is seen later; otherwise the oldest is next.
    """
    first: dict[str, str] = {}
    waiting: dict[UUID, str] = {}
    for each in sorted(contenders, key=lambda each: (not each.is_active, each.created_at, each.name)):
        ahead = first.setdefault(each.application, each.name)
        if ahead != each.name:
            waiting[each.id] = ahead
    return waiting


def advance(
    spec: PromotionRunSpec, promotion: Promotion, around: Surroundings, now: datetime, *, behind: str = ""
) -> Advance:
    """The next state of a run, and what has to be done for it. Looking twice changes nothing.

    Args:
        spec: what is promoted.
        promotion: how far it was.
        around: what there is of what it names.
        now: the time.
        behind: name of the run whose turn it is, if that is another one.
    """
    if promotion.state == "Complete":
        return Advance(promotion)
    if bool(spec.target_environment) == bool(spec.initial_environment):
        return Advance(replace(promotion, state="Complete", result="Failure", error=texts.TARGET_INVALID.message))
    if behind:
        return Advance(replace(promotion, state="Waiting", behind=behind))
    return _complete(_levels(spec, _begun(spec, promotion, now), around, now))


def _begun(spec: PromotionRunSpec, promotion: Promotion, now: datetime) -> Promotion:
    if promotion.steps:
        steps = _with_time_anew(promotion.steps, now) if promotion.state == "Waiting" else promotion.steps
        return replace(promotion, state="Active", behind="", steps=steps)
    first = Step(spec.target_environment or spec.initial_environment, 0, now + TIME_FOR_A_STEP)
    return replace(promotion, state="Active", behind="", started_at=now, steps=(first,))


def _with_time_anew(steps: tuple[Step, ...], now: datetime) -> tuple[Step, ...]:
    """The steps with new time, of a run that had begun and then had to wait for another one."""
    anew = now + TIME_FOR_A_STEP
    return tuple(
        replace(step, due_at=anew, answer_due=None) if step.status == "In Progress" else step for step in steps
    )


def _levels(spec: PromotionRunSpec, promotion: Promotion, around: Surroundings, now: datetime) -> Advance:
    """Look at the newest level; if it is done, continue with the next.

    There are at most as many levels as environments.
    """
    while True:
        promoted = next((step.images for step in promotion.steps if step.images), "")
        looked_at = [_looked_at(spec, step, around, now, promoted) for step in promotion.steps]
        steps = tuple(step for step, _ in looked_at)
        promotion = replace(promotion, steps=steps, error=_first_error(steps))
        following = _next_level(spec, steps, around, now)
        if not following:
            return Advance(promotion, tuple(order for _, order in looked_at if order is not None))
        promotion = replace(promotion, steps=(*steps, *following))


def _first_error(steps: Iterable[Step]) -> str:
    """The first error that can be fixed, or else the first failure."""
    ordered = sorted(steps, key=lambda step: step.status != "In Progress")
    return next((step.error for step in ordered if step.error), "")


def _looked_at(
    spec: PromotionRunSpec, step: Step, around: Surroundings, now: datetime, promoted: str
) -> tuple[Step, Order | None]:
    """The step as it is now, and the order to continue. ``promoted``: the images that its run has begun with."""
    if step.status != "In Progress":
        return step, None
    step, found = _of_same_images(step, progress(spec, step.environment, around), spec, around, promoted)
    if isinstance(found.order, SnapshotOrder) and found.bound is not None:
        step = _ordered(step, found.bound, spec, around)
    else:
        step, found = _answered(step, found, now)
    step = replace(step, error=found.error, binding=found.binding or step.binding)
    if found.is_done:
        return replace(step, status="Success", display=found.display), None
    step = _with_time_after_late_look(step, now)
    if found.is_final or now >= step.due_at:
        said = texts.FAILED if found.is_final else texts.FAILED_IN_TIME
        return replace(step, status="Failed", display=f"{said} {found.shortcoming}".strip()), None
    return replace(step, display=found.display), found.order


def _with_time_after_late_look(step: Step, now: datetime) -> Step:
    """What may have happened in its time is not known yet, if no planner was there when that was over.

    A planner whose clock was ahead may have said so: it never has more time from now on than one that begins.
    """
    is_late = now - step.due_at > LATE_LOOK
    due_at = now + TIME_AFTER_LATE_LOOK if is_late else min(step.due_at, now + TIME_FOR_A_STEP)
    return replace(step, due_at=due_at)


def _of_same_images(
    step: Step, found: Progress, spec: PromotionRunSpec, around: Surroundings, promoted: str
) -> tuple[Step, Progress]:
    """With the images that the binding has or gets.

    It is an error if the Snapshot has other ones now.
    """
    images = images_digest(around.images.get(spec.snapshot, ()))
    if found.error or not images:
        return step, found
    # What another run has brought under the name is there only if this one need not order it.
    bound = found.bound.images if found.bound is not None and found.order is None else ""
    step = replace(step, images=step.images or bound or promoted or images)
    if step.images == images:
        return step, found
    error = texts.SNAPSHOT_REMADE.text(snapshot=spec.snapshot)
    return step, Progress(error, binding=found.binding, error=error, shortcoming=error, is_final=True)


def _ordered(step: Step, bound: BoundSnapshot, spec: PromotionRunSpec, around: Surroundings) -> Step:
    """The step with the state when the snapshot was ordered."""
    shown = tuple(sorted(around.shown.get(spec.application, ())))
    before = Before(bound.reported, shown, unchanged_components(bound, spec.snapshot, around))
    return replace(step, before=before, answer_due=None, is_recalled=False)


def _answered(step: Step, found: Progress, now: datetime) -> tuple[Step, Progress]:
    """The step, unless the build service's report is from before the order."""
    if step.is_recalled:
        return _answered_since(step, found, now)
    bound = found.bound
    before = step.before or (bound.before if bound is not None else None)
    if bound is None or before is None or bound.is_current or bound.reported != before.reported:
        return step, found
    due = step.answer_due or now + TIME_TO_ANSWER
    step = replace(step, before=before, answer_due=due)
    if now < due:
        return step, unanswered(found)
    return step, judged_by_branch(found, before, is_over=now >= due + TIME_TO_NOTICE)


def _answered_since(step: Step, found: Progress, now: datetime) -> tuple[Step, Progress]:
    """The step if the state at the time of the order is unknown: the current state may be that one, for some time.

    That time begins now, because the status may have been read long after it was written.
    """
    bound = found.bound
    if bound is None or bound.is_current:
        return step, found
    if step.before is None:
        step = replace(step, before=Before(bound.reported), due_at=now + TIME_FOR_A_STEP)
    due = step.answer_due or now + TIME_TO_ANSWER
    step = replace(step, answer_due=due)
    is_unanswered = step.before == Before(bound.reported) and now < due + TIME_TO_NOTICE
    return step, unanswered(found) if is_unanswered else found


def _next_level(
    spec: PromotionRunSpec, steps: tuple[Step, ...], around: Surroundings, now: datetime
) -> tuple[Step, ...]:
    """Automated children of the environments that have succeeded on the newest level, once that level is done."""
    if not spec.initial_environment or any(step.status == "In Progress" for step in steps):
        return ()
    level = steps[-1].level
    succeeded = {step.environment for step in steps if step.level == level and step.status == "Success"}
    seen = {step.environment for step in steps}
    children = (
        name
        for name, parent in sorted(around.parents.items())
        if parent in succeeded and name in around.automated and name not in seen and name not in around.on_cycles
    )
    return tuple(Step(name, level + 1, now + TIME_FOR_A_STEP) for name in children)


def _complete(advanced: Advance) -> Advance:
    steps = advanced.promotion.steps
    if any(step.status == "In Progress" for step in steps):
        return advanced
    result: Literal["Success", "Failure"] = "Failure" if any(step.status == "Failed" for step in steps) else "Success"
    return replace(advanced, promotion=replace(advanced.promotion, state="Complete", result=result))
