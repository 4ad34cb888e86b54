"""Sends observations, keyed by tenant or by instance, and reports whether each was delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

import structlog

from services.common.avro import AvroCodec
from services.common.clock import Clock
from services.common.errors import Retry
from services.common.kafka import Publisher, tenant_key
from services.common.messages import EngineResource, Observation
from services.common.messages.observation import ObservationEvent
from services.common.telemetry import TRACEPARENT

log = structlog.get_logger(__name__)

MESSAGE_CHARACTERS = 500
"""Longest message for operators about an instance; the rest is cut off."""
AGAIN_SECONDS = 1.0
"""After how long an observation that could not be sent is reported lost. Its sender then sends the current state."""

Delivered = Callable[[bool], None]
"""Called once, in the event loop: True if the observation is in the log."""


class ObservationSink:
    """Sends observations to Kafka, in order per tenant: the producer is idempotent, and the key is the tenant.

    None is sent while another agent may own our instances. A process that was stopped for long would otherwise report
    an old state as the current one.
    """

    def __init__(
        self,
        publisher: Publisher,
        codec: AvroCodec[Observation],
        topic: str,
        clock: Clock,
        require_membership: Callable[[], object],
    ) -> None:
        """``require_membership`` raises Retry if another agent may own our instances by now."""
        self._publisher, self._codec, self._topic, self._clock = publisher, codec, topic, clock
        self._require_membership = require_membership

    def send_observation(self, row: EngineResource, event: ObservationEvent, delivered: Delivered) -> None:
        """Queue an observation of ``row``'s object. Raises Retry if it cannot be queued."""
        observation = Observation(
            workspace=row.workspace,
            namespace=row.tenant_namespace,
            engine_instance_id=row.engine_instance_id,
            kind=row.kind,
            name=row.name,
            observed_at=self._clock.now(),
            event=event,
        )
        headers = {TRACEPARENT: row.trace_id} if row.trace_id else {}
        self._send(tenant_key(row.workspace, row.tenant_namespace), observation, headers, delivered)

    def send_report(self, instance: str, event: ObservationEvent, delivered: Delivered) -> None:
        """Queue an observation of an instance itself. Raises Retry if it cannot be queued."""
        observation = Observation("", "", instance, "", "", self._clock.now(), event)
        self._send(instance.encode(), observation, {}, delivered)

    def _send(self, key: bytes, observation: Observation, headers: dict[str, str], delivered: Delivered) -> None:
        try:
            self._require_membership()  # after the observation has got its time, which may be before we were stopped
        except Retry as error:
            log.warning("observation not sent", error=str(error))
            self._clock.call_later(AGAIN_SECONDS, lambda: delivered(False))
            return
        loop = asyncio.get_running_loop()
        sent = self._publisher.send_message(self._topic, key, self._codec.encode_message(observation), headers)
        sent.add_done_callback(lambda future: _hand_over(loop, future, delivered))


def _hand_over(loop: asyncio.AbstractEventLoop, sent: Future[int], delivered: Delivered) -> None:
    """Pass the result from the producer's thread to the loop. If the loop has ended, nobody waits for it."""
    error = sent.exception()
    if error is not None:
        log.warning("observation not delivered", error=str(error))
    if not loop.is_closed():
        loop.call_soon_threadsafe(delivered, error is None)
