"""Keeps every installation of an engine cluster as it should be, and reports progress to the planner.

Installations are compared at once when the fleet changes, and otherwise every half minute. An instance that cannot be
installed delays no other. A forbidden call is reported as a failure only if that lasts, because an API server that
starts may not know all rights yet.

Changed manifests are applied to instances in waves (``waves.py``). An instance that waits for its turn is left as it
is: the manifests that it was installed with no longer exist for a comparison.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta

import structlog

from services.agent.objects.fleet import Fleet
from services.agent.observe.observation_sink import MESSAGE_CHARACTERS, ObservationSink
from services.agent.provisioning import PROVISIONER
from services.agent.provisioning.installer import Installer
from services.agent.provisioning.turns import Turn, find_turns
from services.agent.provisioning.waves import begun, completed
from services.common.clock import Clock
from services.common.errors import GitOpsError, Permanent, Retry
from services.common.kubernetes import ForbiddenGrace, Rejected
from services.common.messages import EngineInstallation, FleetInstance, InstallationPhase
from services.common.telemetry import metrics

log = structlog.get_logger(__name__)

REPORT_SECONDS = 60.0
"""Seconds between two reports without a change."""


class Provisioner:
    """The provisioner of one engine cluster."""

    def __init__(
        self,
        fleet: Fleet,
        installer: Installer,
        reports: ObservationSink,
        clock: Clock,
        *,
        interval_seconds: float,
        soak_seconds: float,
    ) -> None:
        """``fleet`` is kept up to date by its owner, who calls :meth:`look_again`.

        ``soak_seconds``: how long instances work with changed manifests before the next ones get them.
        """
        self._fleet, self._installer, self._reports = fleet, installer, reports
        self._clock, self._interval, self._soak = clock, interval_seconds, timedelta(seconds=soak_seconds)
        self._asked = asyncio.Event()
        self._reported: dict[str, tuple[EngineInstallation, float]] = {}
        """By instance, the last report and its time."""
        self._graces = defaultdict[str, ForbiddenGrace](lambda: ForbiddenGrace(clock=clock))
        """By instance."""
        self._gone: set[str] = set()
        """Retired instances of which nothing is left. This process does not compare them again."""
        self._waiting: frozenset[str] = frozenset()
        """Instances that waited for changed manifests at the last comparison."""
        self._waiting_since = clock.time()
        """Since when any instance waits, or when the last waiting one got its manifests."""
        self._has_looked = False

    def not_ready(self) -> str:
        """Why it is not ready; empty once every desired installation was compared. Removals may take long."""
        return "" if self._has_looked else "installations not compared yet"

    def look_again(self) -> None:
        """The fleet has changed: compare again."""
        self._asked.set()

    async def run(self) -> None:
        """Compare again and again, for ever."""
        while True:
            self._asked.clear()
            await self.compare_all()
            waking = self._clock.call_later(self._interval, self._asked.set)
            await self._asked.wait()
            waking.cancel()

    async def compare_all(self) -> None:
        """Compare every installation once."""
        installations = self._fleet.installations()
        kept = [each for each in installations if not each.is_retired]
        turns = await find_turns(self._installer, kept, self._clock.now(), self._soak)
        self._measure_wait(turns)
        for instance in installations:
            self._has_looked |= instance.is_retired  # these come last
            if instance.id not in self._gone:
                await self._look_at(instance, turns)
        self._has_looked = True

    def _measure_wait(self, turns: Mapping[str, Turn | GitOpsError]) -> None:
        """Update the metric. An instance that waited, and cannot be read now, still waits."""
        now, before = self._clock.time(), self._waiting
        known = {name: turn for name, turn in turns.items() if isinstance(turn, Turn)}
        unread = before & (turns.keys() - known.keys())
        self._waiting = unread | {name for name, turn in known.items() if turn.waits}
        if not before or any(not known[name].waits for name in before & known.keys()):
            self._waiting_since = now
        metrics.MANIFESTS_HELD.set(now - self._waiting_since if self._waiting else 0)

    async def _look_at(self, instance: FleetInstance, turns: Mapping[str, Turn | GitOpsError]) -> None:
        try:
            found = await (
                self._removed(instance) if instance.is_retired else self._installed(instance, turns[instance.id])
            )
        except Rejected as error:
            found = self._rejected(instance, error)
        except Permanent as error:
            found = self._failed(instance, str(error))
        except GitOpsError as error:
            self._graces[instance.id].begin_anew()
            found = _unfinished(instance, str(error))
        else:
            self._graces.pop(instance.id, None)
        metrics.INSTALLATIONS_FAILED.labels(instance.id).set(found.phase == InstallationPhase.FAILED)
        self._report(instance, found)

    async def _installed(self, instance: FleetInstance, turn: Turn | GitOpsError) -> EngineInstallation:
        if isinstance(turn, GitOpsError):
            raise turn
        if turn.waits:
            return _report_of(InstallationPhase.APPLIED, instance, turn.waits)
        before = turn.record
        if before is None or before.digest != turn.wanted.digest:
            before = begun(instance, turn.wanted.digest)
        is_written = turn.is_written and before == turn.record
        installed = await self._installer.install(instance, turn.wanted, None if is_written else before)
        if installed.changed:
            log.info("an installation was brought up to date", instance=instance.id, objects=installed.changed)
        after = completed(before, instance, self._clock.now(), self._soak, is_rolled_out=installed.is_rolled_out)
        if after != before:
            await self._installer.records.write(instance, after)
        return _report_of(InstallationPhase.APPLIED, instance)

    async def _removed(self, instance: FleetInstance) -> EngineInstallation:
        if not await self._installer.remove(instance):
            self._clock.call_later(min(self._interval, 2.0), self._asked.set)
            return _report_of(InstallationPhase.REMOVING, instance)
        self._gone.add(instance.id)
        return EngineInstallation(InstallationPhase.REMOVED.value, "", "")

    def _rejected(self, instance: FleetInstance, error: Rejected) -> EngineInstallation:
        try:
            self._graces[instance.id].tolerate_rejection(error)
        except Rejected:
            return self._failed(instance, f"the API server refuses it: {error}")
        return _unfinished(instance, f"the API server forbids it, which may pass: {error}")

    def _failed(self, instance: FleetInstance, message: str) -> EngineInstallation:
        log.error("an installation cannot be made", instance=instance.id, error=message, service=PROVISIONER)
        return _report_of(InstallationPhase.FAILED, instance, message)

    def _report(self, instance: FleetInstance, found: EngineInstallation) -> None:
        before, at = self._reported.get(instance.id, (None, 0.0))
        if found == before and self._clock.time() - at < REPORT_SECONDS:
            return
        self._reported[instance.id] = (found, self._clock.time())

        def end_delivery(arrived: bool) -> None:
            if not arrived:
                self._reported.pop(instance.id, None)
                self._gone.discard(instance.id)

        try:
            self._reports.send_report(instance.id, found, end_delivery)
        except Retry as error:
            log.warning("installation not told", instance=instance.id, error=str(error))
            end_delivery(arrived=False)


def _unfinished(instance: FleetInstance, message: str) -> EngineInstallation:
    """The report of an installation that is tried again by itself."""
    phase = InstallationPhase.REMOVING if instance.is_retired else InstallationPhase.APPLYING
    return _report_of(phase, instance, message)


def _report_of(phase: InstallationPhase, instance: FleetInstance, message: str = "") -> EngineInstallation:
    return EngineInstallation(phase.value, instance.wanted_version, message[:MESSAGE_CHARACTERS])
