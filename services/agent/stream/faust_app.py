"""The faust application, which owns the agent's place in its consumer group and commits what the tracker says.

Its Kafka driver is changed in six places:

- A message counts as processed when the :class:`OffsetTracker` says so. faust's own bookkeeping commits past a message
  that is not acknowledged if the one after it is (``Consumer._new_offset`` tolerates a gap of one, and any gap while
  nothing was committed yet).
- An empty fetch stays with the broker for 200 ms. A broker answers the requests of one connection one after the other,
  and faust asks it for offsets several times during a recovery. Behind an idle fetch of 1.5 seconds (fixed in the
  driver) each of them waits: a rebalance took 4.5 s, with this 0.7 s. A message is answered with at once.
- A static member (``GROUP_INSTANCE_ID``) leaves the group when it is asked to end, which Kafka's clients do not: its
  partitions would wait for the session timeout. One that was killed and starts again within that time is given its
  partitions back at once, and no other agent notices.
- Each heartbeat that the broker answers as a member's renews the :class:`GroupSession`, and so does a rebalance that
  ends: without one an agent that was stopped, or is cut off from the brokers, changes nothing.
- An agent that takes no part leaves the group at a heartbeat, static member or not, and joins it later. For faust that
  is a rebalance that takes long: to unsubscribe instead breaks it, which asks for the assignment at any time.
- It begins only when a broker is known. One that has just started may name none at first, itself not either, and the
  driver would never join a group then: it asserts that there is one, in a task that nobody restarts.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import faust
from faust.transport.drivers import aiokafka as driver

from services.agent.settings import AgentSettings
from services.common.kafka import GroupSession, OffsetTracker
from services.common.settings import BrokerSettings

FETCH_MAX_WAIT_MS = 200
METADATA_SECONDS = 0.2
ASIDE_SECONDS = 0.1
YEAR_SECONDS = 365 * 86400.0


def faust_app(settings: AgentSettings, offsets: OffsetTracker, session: GroupSession, data: Path) -> faust.App:
    """One consumer, no tables, no web server, no leader topic. ``data``: a folder that it creates and leaves empty."""
    brokers = ";".join(f"kafka://{broker}" for broker in settings.kafka_bootstrap_servers.split(","))
    app = faust.App(
        settings.consumer_group,
        broker=brokers,
        broker_credentials=_credentials(settings),
        datadir=str(data),
        web_enabled=False,
        # Names this worker among others of one host.
        canonical_url=f"http://{socket.gethostname()}:{os.getpid()}",
        value_serializer="raw",
        topic_disable_leader=True,
        topic_allow_declare=False,
        # Has faust use aiokafka's round robin: neighbouring partitions go to different agents.
        table_standby_replicas=0,
        consumer_group_instance_id=settings.group_instance_id or None,
        broker_session_timeout=settings.session_timeout_seconds,
        broker_heartbeat_interval=min(1.0, settings.session_timeout_seconds / 5),
        broker_commit_interval=settings.commit_interval_seconds,
        broker_max_poll_records=1000,
        # Who fetches nothing for so long does not join again; agents that hang are found by the StallDetector.
        broker_max_poll_interval=YEAR_SECONDS,
        # What is in flight at a rebalance or at the end is sent again: waiting for it would delay the rebalance.
        stream_wait_empty=False,
    )
    app.transport = TrackedTransport(offsets, session, app.conf.broker_consumer, app)
    return app


def take_part(app: faust.App, *, wanted: bool) -> None:
    """Decide whether to be a member of the group. If not, the group is left within a heartbeat.

    The group is left even if membership is wanted again before that: a member that has given up its partitions gets
    some only by joining.
    """
    transport = cast("TrackedTransport", app.transport)
    transport.takes_part = wanted
    transport.has_to_leave = transport.has_to_leave or not wanted


def _credentials(settings: BrokerSettings) -> faust.types.auth.CredentialsT | None:
    """The credentials of ``client_properties``, in faust's form."""
    protocol = settings.kafka_security_protocol
    ca = str(settings.kafka_ca) if settings.kafka_ca else None
    tls = ssl.create_default_context(cafile=ca) if protocol.endswith("SSL") else None
    if protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=settings.kafka_username,
            password=settings.kafka_password.get_secret_value(),
            mechanism=settings.kafka_sasl_mechanism,
            ssl_context=tls,
        )
    return faust.SSLCredentials(tls) if tls else None


def confirming(ask: Callable[..., Awaitable[bool]], session: GroupSession) -> Callable[..., Awaitable[bool]]:
    """Wraps ``ask``, and confirms the session if it returns True: the broker has answered us as a member."""

    async def asked(*arguments: object) -> bool:
        asked_at = session.clock.time()
        if is_member := await ask(*arguments):
            session.confirm_membership(asked_at)
        return is_member

    return asked


def beating(coordinator: Any, transport: TrackedTransport) -> Callable[[], Awaitable[bool]]:
    """The heartbeat of a member. It leaves the group instead if the agent should take no part."""
    beat = confirming(coordinator._do_heartbeat, transport.session)

    async def heartbeat() -> bool:
        if transport.takes_part and not transport.has_to_leave:
            return await beat()
        static, coordinator._group_instance_id = coordinator._group_instance_id, None
        try:
            await coordinator._maybe_leave_group()
        finally:
            coordinator._group_instance_id = static
        transport.has_to_leave = False
        return False

    return heartbeat


def joining(coordinator: Any, transport: TrackedTransport) -> Callable[[object], Awaitable[bool]]:
    """Joins the group if the agent should take part; otherwise it is called again.

    Its partitions were revoked before.
    """
    join = confirming(coordinator._do_rejoin_group, transport.session)

    async def rejoin(subscription: object) -> bool:
        if transport.takes_part:
            transport.has_to_leave = False
            return await join(subscription)
        await asyncio.sleep(ASIDE_SECONDS)
        return False

    return rejoin


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS  # read when the consumer starts
        return consumer

    async def on_start(self) -> None:
        await super().on_start()
        client = self._ensure_consumer()._client
        while not client.cluster.brokers():
            await asyncio.sleep(METADATA_SECONDS)
            await client.force_metadata_update()
        coordinator, transport = self._ensure_consumer()._coordinator, cast("TrackedTransport", self.transport)
        coordinator._do_heartbeat = beating(coordinator, transport)
        coordinator._do_rejoin_group = joining(coordinator, transport)

    async def on_thread_stop(self) -> None:
        if self._consumer is not None:  # an agent that is asked to end leaves the group, static member or not
            self._consumer._coordinator._group_instance_id = None
        await super().on_thread_stop()


class _Consumer(driver.Consumer):
    transport: TrackedTransport

    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit what can be committed of each partition; nothing before its first message."""
        offsets = self.transport.offsets
        committable = {
            faust.types.TP(*source): offsets.committable_offset(source) or 0 for source in offsets.partitions
        }
        news = {tp: offset for tp, offset in committable.items() if offset and self._should_commit(tp, offset)}
        return await self._commit_offsets(news) if news else False


class TrackedTransport(driver.Transport):
    """The driver's transport. Its consumer commits what ``offsets`` says."""

    Consumer = _Consumer

    def __init__(self, offsets: OffsetTracker, session: GroupSession, *arguments: Any) -> None:
        self.offsets, self.session = offsets, session
        self.takes_part = True
        """Read on the consumer's thread."""
        self.has_to_leave = False
        """Read on the consumer's thread, and reset there when it is done."""
        super().__init__(*arguments)
