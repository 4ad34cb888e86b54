"""The course of a PromotionRun: whose turn it is, level by level, until it has succeeded or its time is over.

Steps go forward only, and nothing that was promoted is taken back: a run that fails, or is deleted, leaves the bindings
as they are. What time it is, and when a step's time is over, are values: nothing here waits.
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
"""A step is looked at when its time is over. If that is more than this later, no planner was there for a while."""
TIME_AFTER_LATE_LOOK = timedelta(minutes=2)
"""For what others have said meanwhile to be read, and for them to say what they could not."""
TIME_TO_ANSWER = timedelta(minutes=1)
"""For a build service that does not say which spec it has seen, to write what a snapshot changes."""
TIME_TO_NOTICE = timedelta(minutes=6)
"""For an engine after that: Argo CD compares every three minutes, with what a branch was up to three minutes before."""

StepStatus = Literal["In Progress", "Success", "Failed"]
Order = BindingOrder | SnapshotOrder


@dataclass(frozen=True, slots=True)
class Step:
    """The promotion to one environment."""

    environment: str
    level: int
    """How far from the first environment, which has 0: those of a level are promoted to at the same time."""
    due_at: datetime
    """When it fails unless it has succeeded, if it did not fail before because it never can."""
    status: StepStatus = "In Progress"
    display: str = ""
    binding: str = ""
    before: Before | None = None
    """What there was when the binding got the snapshot, from this run or one before; None: it always had it."""
    is_recalled: bool = False
    """Its status alone tells of it, as the database was lost: ``before`` is what there was when it was seen again."""
    answer_due: datetime | None = None
    """When the binding counts as answered though that is the same; None: it does not have the snapshot yet."""
    error: str = ""
    """What its user has to mend, or had to when it failed."""
    images: str = ""
    """Digest of those of the snapshot that the binding has or gets; empty: nobody knows."""

    @property
    def times(self) -> tuple[datetime, ...]:
        """When it has to be looked at though nothing happens."""
        due = self.answer_due
        return (self.due_at,) if due is None else (self.due_at, due, due + TIME_TO_NOTICE)


@dataclass(frozen=True, slots=True)
class Promotion:
    """How far a run is: the row that is kept of it."""

    state: Literal["Waiting", "Active", "Complete"] = "Waiting"
    result: Literal["", "Success", "Failure"] = ""
    started_at: datetime | None = None
    steps: tuple[Step, ...] = ()
    behind: str = ""
    """Name of the run of the same application that it waits for."""
    error: str = ""
    """What its user has to mend, of the first environment where anything is; then what has made one fail."""

    def due_after(self, now: datetime) -> datetime | None:
        """When it has to be looked at again, though nothing happens."""
        waiting = [step for step in self.steps if step.status == "In Progress"]
        return min((time for step in waiting for time in step.times if time > now), default=None)

    @property
    def active_bindings(self) -> tuple[str, ...]:
        """Those of the newest level."""
        last = self.steps[-1].level if self.steps else 0
        return tuple(sorted(step.binding for step in self.steps if step.level == last and step.binding))


@dataclass(frozen=True, slots=True)
class Advance:
    """What follows from a run."""

    promotion: Promotion
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True, slots=True)
class Contender:
    """What decides whose turn it is among the runs that are not complete."""

    id: UUID
    name: str
    application: str
    created_at: int
    """Milliseconds since 1970."""
    is_active: bool


def runs_ahead(contenders: Iterable[Contender]) -> dict[UUID, str]:
    """For each run that has to wait the name of the one whose turn it is: one at a time for each application.

    A run that has begun goes on, even if an older one is seen later; otherwise the oldest is next.
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
    """Those of a run that had begun, and then had to wait for another one all the same."""
    anew = now + TIME_FOR_A_STEP
    return tuple(
        replace(step, due_at=anew, answer_due=None) if step.status == "In Progress" else step for step in steps
    )


def _levels(spec: PromotionRunSpec, promotion: Promotion, around: Surroundings, now: datetime) -> Advance:
    """Look at the newest level; where it is over go on to the next one. There are as many at most as environments."""
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
    """What can still be mended goes before what has failed."""
    ordered = sorted(steps, key=lambda step: step.status != "In Progress")
    return next((step.error for step in ordered if step.error), "")


def _looked_at(
    spec: PromotionRunSpec, step: Step, around: Surroundings, now: datetime, promoted: str
) -> tuple[Step, Order | None]:
    """A step as it is now, and what has to be done for it to go on.

    ``promoted``: the images that its run has begun with.
    """
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
    """With the images that the binding has or gets. That the Snapshot has other ones now is an error."""
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
    """With what there was when the snapshot was ordered."""
    shown = tuple(sorted(around.shown.get(spec.application, ())))
    before = Before(bound.reported, shown, unchanged_components(bound, spec.snapshot, around))
    return replace(step, before=before, answer_due=None, is_recalled=False)


def _answered(step: Step, found: Progress, now: datetime) -> tuple[Step, Progress]:
    """What the build service said before a snapshot was ordered is no answer to that."""
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
    """Nobody knows what there was when the snapshot was ordered, so that may be what there is, until time is over.

    Its own time begins with that: the status may have been read long after it was told of.
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
    """Automated children of the environments that have succeeded on the newest level, once all of that is over."""
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
