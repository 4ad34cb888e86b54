"""Builds the simulator out of its settings and runs it."""

from __future__ import annotations

import asyncio

import structlog

from devstack.argocd_simulator import SERVICE
from devstack.argocd_simulator.settings import SimulatorSettings
from devstack.argocd_simulator.simulator import Pace, Simulator
from services.common.kubernetes import APPLICATION, connect, reflect
from services.common.stop_signals import handle_stop_signals_in_loop
from services.common.telemetry import Probes, configure_logging

log = structlog.get_logger(__name__)


def start(settings: SimulatorSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises the errors of a start that fails."""
    configure_logging(SERVICE, settings.log_level, settings.log_format)
    asyncio.run(_serve(settings))


async def _serve(settings: SimulatorSettings) -> None:
    pace = Pace(settings.simulator_sync_seconds, settings.simulator_concurrency, settings.simulator_writes_per_sync)
    namespaces = list(settings.engine_namespaces.values())
    async with await connect(settings.kubeconfig) as client:
        simulator = Simulator(client, lambda namespace: reflect(client, APPLICATION, namespace), namespaces, pace)
        probes = Probes(SERVICE, alive=lambda: "", ready=simulator.not_ready)
        port = probes.start(settings.metrics_host, settings.metrics_port)
        log.info("starting", metrics_port=port, namespaces=namespaces)
        running = asyncio.ensure_future(simulator.run())
        handle_stop_signals_in_loop(running.cancel)
        try:
            await running
        except asyncio.CancelledError:
            log.info("stopped")
        finally:
            probes.stop()
