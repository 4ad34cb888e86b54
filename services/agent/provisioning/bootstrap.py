"""Builds a provisioner from its settings and runs it."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from services.agent.agent import DELIVERY_SECONDS, Shutdown
from services.agent.background_tasks import BackgroundTasks
from services.agent.objects.fleet import Fleet
from services.agent.observe.observation_sink import ObservationSink
from services.agent.provisioning import PROVISIONER
from services.agent.provisioning.installation import Renderings
from services.agent.provisioning.installer import Installer
from services.agent.provisioning.provisioner import Provisioner
from services.agent.provisioning.settings import ProvisionerSettings
from services.agent.stream.fleet_follower import FleetFollower
from services.common.avro import report_token_expiry
from services.common.clock import SystemClock
from services.common.kafka import OBSERVATIONS, Publisher, WholeTopicReader, count_partitions
from services.common.kubernetes import connect
from services.common.message_log import Messaging, await_messaging, row_of
from services.common.messages import FleetInstance, Observation
from services.common.startup import await_dependency
from services.common.telemetry import Heartbeat, Probes, configure_logging

log = structlog.get_logger(__name__)


def start(settings: ProvisionerSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises the errors of a start that fails."""
    configure_logging(PROVISIONER, settings.log_level, settings.log_format)
    report_token_expiry(PROVISIONER, settings)
    topics = [settings.fleet_topic, settings.topic_of_reports]
    messaging = await_messaging(settings, Observation, OBSERVATIONS, lambda: count_partitions(settings, topics))
    decode = partial(row_of, FleetInstance, messaging.registry)
    reader = WholeTopicReader(settings, settings.fleet_topic, settings.consumer_group, decode, PROVISIONER)
    rows = await_dependency(f"topic {settings.fleet_topic}", reader.read_news, settings.start_timeout_seconds)
    follower = FleetFollower(Fleet(settings.engine_cluster, rows), reader, SystemClock())
    asyncio.run(_serve(settings, messaging, follower))


async def _serve(settings: ProvisionerSettings, messaging: Messaging[Observation], follower: FleetFollower) -> None:
    """Run the provisioner. One process is enough, but several do no harm: they apply the same."""
    shutdown, clock, heartbeat = Shutdown(), SystemClock(), Heartbeat()
    publisher = Publisher(settings, PROVISIONER)
    async with await connect(settings.kubeconfig) as cluster:
        reports = ObservationSink(publisher, messaging.messages, settings.topic_of_reports, clock, lambda: None)
        installer = Installer(cluster, Renderings(settings.installations))
        provisioner = Provisioner(
            follower.fleet,
            installer,
            reports,
            clock,
            interval_seconds=settings.provisioning_interval_seconds,
            soak_seconds=settings.provisioning_soak_seconds,
        )
        follower.call_on_change(provisioner.look_again)
        probes = Probes(
            PROVISIONER, alive=heartbeat.silence, ready=lambda: shutdown.reason() or provisioner.not_ready()
        )
        port = probes.start(settings.metrics_host, settings.metrics_port)
        log.info("starting", metrics_port=port, manifests=Renderings(settings.installations).names())
        tasks = BackgroundTasks(shutdown.fail_with)
        tasks.start_task(heartbeat.keep_beating(), "heartbeat")
        tasks.start_task(follower.follow(), "fleet")
        tasks.start_task(provisioner.run(), "provisioner")
        try:
            await shutdown.wait()
        finally:
            tasks.cancel_all()
            await tasks.wait_for_all()
            await asyncio.to_thread(publisher.close, DELIVERY_SECONDS)
            probes.stop()
    shutdown.raise_defect()
