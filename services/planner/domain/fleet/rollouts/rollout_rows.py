"""Rows of a rollout as values: how far it is, and the figures of instances by which it is judged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from services.planner.domain.fleet.rows import Release

RolloutStep = Literal[
    "ordered", "provisioning", "moving", "soaking", "draining", "retiring", "reverting", "done", "failed", "aborted"
]
OVER: tuple[RolloutStep, ...] = ("done", "failed", "aborted")
FINAL: tuple[RolloutStep, ...] = ("draining", "retiring")
"""Steps from which a ring does not go back: its old instances are given up."""
REVERTIBLE: tuple[RolloutStep, ...] = ("moving", "soaking")
"""Steps from which a ring can go back: tenants may have moved, and its old instances have room for all of them."""
SENDING: tuple[RolloutStep, ...] = ("moving", "draining", "reverting")
"""Steps at which tenants are sent to other instances."""
LAST_STAGE = 100
"""All of a ring's tenants, in percent."""
STALLED_AFTER = timedelta(hours=1)
"""How long nothing gets on before a rollout leaves that to operators, or ends if it is to end."""
TOLD_FOR = timedelta(days=1)
"""A rollout's end is shown beside what is under way, and in the metrics, for so long: every shift of operators sees it,
and nobody takes it for what goes on. ``gitopsctl engines rollout status`` shows it as long as it is kept."""
THERE_BEFORE, REFILLED = "there_before", "refilled"
"""Members of a baseline's JSON besides the figures."""
SECURITY_TIMES, SECURITY_LEAST = 6, timedelta(minutes=5)
"""A rollout for security soaks a sixth of the time, but at least this long, or as long as ordered if that is less."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """A row of ``rollouts``: a version, or a configuration profile, that comes to the fleet ring by ring."""

    id: UUID
    """The order's."""
    version: str
    """Of the engine."""
    profile: str
    """Configuration of the new instances; empty: the usual one."""
    rings: str
    """In their order, comma separated."""
    soak_seconds: int
    """As ordered: how long each stage is looked at before the next."""
    is_security: bool
    """Soaks are shorter."""
    step: RolloutStep
    ring: str
    """The ring that it is at; empty before the first."""
    stage: int
    """One of ``STAGES`` (``stages.py``); 0 before a ring's first stage, and after a ring went back."""
    is_paused: bool
    """Nothing happens until an operator resumes it, or aborts."""
    outcome: str
    """How it ends once its ring is back, done or stalled: ``failed`` or ``aborted``; empty: it goes on."""
    sources: str
    """JSON: ids of the ring's old instances."""
    targets: str
    """JSON: ids of its new ones."""
    baseline: str
    """JSON of how the ring was before the first tenant moved: the :class:`Figures` of its old instances, and
    :attr:`there_before`; empty before that."""
    tenants: int
    """Of the ring."""
    moved: int
    """How many of them are on new instances, and not on their way."""
    reason: str
    """What the step waits for, or why the rollout has stopped, in words; empty if there is nothing to say."""
    actor: str
    ordered_at: datetime
    step_since: datetime
    moved_at: datetime
    """When ``moved`` changed last, or the step began."""
    due_at: datetime | None
    """When it is looked at next; None: it is over, or paused."""

    @property
    def is_over(self) -> bool:
        """Whether nothing follows from it any more."""
        return self.step in OVER

    def is_news(self, now: datetime) -> bool:
        """Whether it is under way, or has ended less than :data:`TOLD_FOR` ago."""
        return not self.is_over or now < self.step_since + TOLD_FOR

    @property
    def release(self) -> Release:
        """What it brings."""
        return Release(self.version, self.profile)

    @property
    def is_on_new(self) -> bool:
        """Whether its ring's new instances take all new tenants, as they do from the last stage on."""
        return self.stage == LAST_STAGE and self.step != "reverting"

    @property
    def placement(self) -> tuple[object, ...]:
        """What decides which instances of its ring take new tenants."""
        return self.ring, self.release, self.is_on_new, self.is_over

    @property
    def ring_names(self) -> tuple[str, ...]:
        """The names in :attr:`rings`, in the order in which the rollout comes to them."""
        return tuple(self.rings.split(","))

    @property
    def source_ids(self) -> frozenset[str]:
        """Ids of the ring's old instances, from :attr:`sources`."""
        return frozenset(json.loads(self.sources))

    @property
    def target_ids(self) -> frozenset[str]:
        """Ids of the ring's new instances, from :attr:`targets`."""
        return frozenset(json.loads(self.targets))

    def with_instances(self, old: Iterable[str], new: Iterable[str]) -> Rollout:
        """With these as the ids of its ring's old and new instances."""
        return replace(self, sources=json.dumps(sorted(old)), targets=json.dumps(sorted(new)))

    def with_counts(self, tenants: int, moved: int, now: datetime) -> Rollout:
        """With these as :attr:`tenants` and :attr:`moved`."""
        moved_at = self.moved_at if moved == self.moved else now
        return replace(self, tenants=tenants, moved=moved, moved_at=moved_at)

    @property
    def past(self) -> Figures:
        """Figures of the ring's old instances before the first tenant moved, which gates compare with."""
        figures = json.loads(self.baseline or "{}")
        # A newer planner may have written more.
        return Figures(**{each.name: figures[each.name] for each in fields(Figures) if each.name in figures})

    def with_past(self, past: Figures, there_before: int) -> Rollout:
        """With another :attr:`past`, and another :attr:`there_before`."""
        return replace(self, baseline=json.dumps({**asdict(past), THERE_BEFORE: there_before}))

    @property
    def there_before(self) -> int:
        """How many tenants were on new instances before the first moved to them; 0 in a row of a former release."""
        return self._count_in_baseline(THERE_BEFORE)

    @property
    def refilled(self) -> int:
        """How often the stage was filled again, because too few of its tenants were left when it had soaked."""
        return self._count_in_baseline(REFILLED)

    def with_refilled(self, times: int) -> Rollout:
        """With another :attr:`refilled`."""
        return replace(self, baseline=json.dumps({**json.loads(self.baseline or "{}"), REFILLED: times}))

    def _count_in_baseline(self, name: str) -> int:
        found: int = json.loads(self.baseline or "{}").get(name, 0)
        return found

    @property
    def soak(self) -> timedelta:
        """How long each stage is looked at."""
        ordered = timedelta(seconds=self.soak_seconds)
        return min(ordered, max(ordered / SECURITY_TIMES, SECURITY_LEAST)) if self.is_security else ordered

    def is_due(self, now: datetime) -> bool:
        """Whether it is to be looked at by ``now``."""
        return self.due_at is not None and self.due_at <= now

    def is_stalled(self, now: datetime) -> bool:
        """Whether nothing has got on for :data:`STALLED_AFTER`; during a soak, after its end."""
        waits_since = self.step_since + self.soak if self.step == "soaking" else self.moved_at
        return not (self.is_over or self.is_paused) and now >= waits_since + STALLED_AFTER


@dataclass(frozen=True, slots=True)
class EngineSample:
    """A row of ``engine_samples``: what an agent counted of an instance's Applications at one time."""

    engine_instance_id: str
    sampled_at: datetime
    applications: int
    late: int
    """Not compared in time, as many as would be if the tenant with most of them did like the others."""
    failed_syncs: int
    """Whose last sync has failed."""
    comparison_errors: int
    comparison_p95_ms: int | None
    """Since they were compared last, but for those of the tenant with the longest, if there are others; None: none."""
    sync_p95_ms: int | None
    """Of the syncs that ended of late, but for those of the tenant with the longest; None: there was no other."""
    tenants: int
    """Whose Applications they are; 0, too, if its agent does not tell."""
    failing_tenants: int
    """Those with an Application that could not be compared, or whose last sync has failed."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Samples of one or more instances, summed up: counts as sums, a p95 as the median, or the largest of instances."""

    samples: int = 0
    applications: int = 0
    late: int = 0
    failed_syncs: int = 0
    comparison_errors: int = 0
    comparison_p95_ms: int | None = None
    sync_p95_ms: int | None = None
    tenants: int = 0
    failing_tenants: int = 0


NO_FIGURES = Figures()


def together(parts: Iterable[Figures]) -> Figures:
    """The figures of several instances as one: counts are added, and of each p95 the largest is taken."""
    parts = tuple(parts)
    return Figures(
        samples=sum(each.samples for each in parts),
        applications=sum(each.applications for each in parts),
        late=sum(each.late for each in parts),
        failed_syncs=sum(each.failed_syncs for each in parts),
        comparison_errors=sum(each.comparison_errors for each in parts),
        comparison_p95_ms=_largest(each.comparison_p95_ms for each in parts),
        sync_p95_ms=_largest(each.sync_p95_ms for each in parts),
        tenants=sum(each.tenants for each in parts),
        failing_tenants=sum(each.failing_tenants for each in parts),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    return max((each for each in values if each is not None), default=None)


def rings_affected(before: Rollout | None, after: Rollout | None) -> tuple[str, ...]:
    """Rings in which other instances may take new tenants from now on; none if no look has changed that."""
    if before is not None and after is not None and before.placement == after.placement:
        return ()
    return tuple(sorted({ring for each in (before, after) if each is not None for ring in each.ring_names}))
