"""The planner's loop: consume a batch → decode → coalesce → load → plan → persist → commit.

Each step is a function in the module of its name. What a step cannot do now is tried again with the same batch;
what the database refuses for good is narrowed down to its message and given up; everything else ends the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

import structlog

from services.common.backoff import Backoff
from services.common.errors import Poison, Retry, Wait
from services.common.telemetry.metrics import BATCH_SECONDS, Failure, count_failure
from services.planner import SERVICE
from services.planner.coalesce import coalesce
from services.planner.consume import Batch, LogConsumer
from services.planner.decode import Decoder
from services.planner.events import Event
from services.planner.offsets import Span
from services.planner.persist import Fenced
from services.planner.plan import plan
from services.planner.pulse import Pulse
from services.planner.rows import Changes, State
from services.planner.rules import Rules
from services.planner.store import Store

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.25

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")


def measured(step: str, function: Callable[Arguments, ResultT]) -> Callable[Arguments, ResultT]:
    """``function``, with the time it takes observed as ``step`` of a batch."""
    seconds = BATCH_SECONDS.labels(SERVICE, step)

    def timed(*args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultT:
        with seconds.time():
            return function(*args, **kwargs)

    return timed


@dataclass
class Planner:
    """The loop and the steps it is made of."""

    consumer: LogConsumer
    decoder: Decoder
    store: Store
    rules: Rules
    batch_limit: int
    upkeep: Callable[[Planner], None]
    """Called between batches, at least every ``POLL_SECONDS`` when there are none."""
    stopping: threading.Event = field(default_factory=threading.Event)
    pulse: Pulse = field(default_factory=Pulse)
    failing: str = ""
    """Why the present batch cannot be done; empty if it can."""

    def __post_init__(self) -> None:
        self._decode = measured("decode", self.decoder)
        self._coalesce = measured("coalesce", coalesce)
        self._load: Callable[[Sequence[Event]], State] = measured("load", self.store.load)
        self._plan: Callable[[State, Sequence[Event]], Changes] = measured("plan", partial(plan, rules=self.rules))
        self._save: Callable[[Changes, Sequence[Span]], None] = measured("persist", self.store.save)
        self._done = measured("commit", self.consumer.done)

    def run(self) -> None:
        """Until ``stopping`` is set; the batch in hand is finished first."""
        while not self.stopping.is_set():
            self.pulse.beat()
            batch = self.consumer.batch(self.batch_limit, POLL_SECONDS)
            if batch.messages:
                self._until_done(batch)
            self._keep_up()

    def process(self, batch: Batch) -> None:
        """The life of a batch."""
        events = self._coalesce(self._decode(batch.messages))
        self.apply(events, batch.spans)
        self._done(batch.spans)

    def apply(self, events: Sequence[Event], spans: Sequence[Span]) -> None:
        """Effects and offsets, in one transaction."""
        state = self._load(events)
        changes = self._plan(state, events)
        self._save(changes, spans)
        self._complain(changes)

    def _complain(self, changes: Changes) -> None:
        """Tell operators what was not done."""
        for instance, kind, namespace, name, _ in changes.oversized:
            count_failure(SERVICE, Failure.REFUSED, "manifest")
            log.error(
                "manifest too long; it stays as it is", instance=instance, kind=kind, object=f"{namespace}/{name}"
            )
        for scope in changes.refused_sweeps:
            count_failure(SERVICE, Failure.REFUSED, "resync")
            log.error("resync would remove too much; nothing was removed", partition=scope.partition, epoch=scope.epoch)

    def _keep_up(self) -> None:
        """What is due by the clock is tried once and then again when it is due: messages do not wait for it."""
        try:
            self.upkeep(self)
        except (Retry, Wait) as error:
            self._failed(error)
        except Fenced as error:
            self._failed(error)
            self.consumer.rewind()
        else:
            self.failing = ""

    def look_again(self, events: Sequence[Event]) -> None:
        """Look at what the clock says is due; whoever does not own a partition any more is fenced.

        What the database refuses for good is passed over, alone: it is due again, and the log says so each time.
        """
        try:
            self.apply(events, self.consumer.fence(event.partition for event in events))
        except Poison as error:
            if len(events) == 1:
                self._failed(error)
                return
            for event in events:
                self.look_again([event])

    def _until_done(self, batch: Batch) -> None:
        try:
            self.until_done(partial(self.process, batch))
        except Poison as error:
            self._narrow_down(batch, error)

    def _narrow_down(self, batch: Batch, error: Poison) -> None:
        """One message is to blame: each is tried alone, the one that fails alone is given up."""
        if len(batch.messages) > 1:
            for single in batch.singles():
                self._until_done(single)
            return
        self.decoder.give_up([(batch.messages[0], error)])
        if self.until_done(partial(self.store.save, Changes(), batch.spans)):
            self.consumer.done(batch.spans)

    def until_done(self, work: Callable[[], None]) -> bool:
        """Do ``work``, again after each failure that may pass, until it is done or the process shall stop.

        Returns whether it was done. Raises Poison. If it was not, nothing is lost: the offsets have not moved.
        """
        delays = Backoff()
        while True:
            try:
                work()
            except (Retry, Wait) as error:
                self._failed(error)
                if self.stopping.wait(delays.next()):
                    return False
            except Fenced as error:
                self._failed(error)
                self.consumer.rewind()
                return False
            else:
                self.failing = ""
                return True

    def _failed(self, error: Exception) -> None:
        self.store.abandon()
        self.failing = str(error)
        self.pulse.beat()
        count_failure(SERVICE, Failure.FENCED if isinstance(error, Fenced) else error, "batch")
        log.warning("batch not done", error=str(error), type=type(error).__name__)
