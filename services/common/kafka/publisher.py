"""An idempotent producer whose sends can be awaited from asyncio or waited for from a plain thread.

librdkafka retries by itself for as long as ``DELIVERY_SECONDS``, or as its caller has patience; a failure that reaches
the caller is final for that message, and the caller must not go on as if it had been sent. It may have arrived all the
same: a broker that took it may be the one whose acknowledgement is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from services.common.errors import Retry
from services.common.kafka.brokers import FETCHED_BYTES, Brokers, answered, client_properties, partitions_in
from services.common.telemetry.metrics import Direction, count_messages

log = structlog.get_logger(__name__)

DELIVERY_SECONDS = 120.0
POLL_SECONDS = 0.1
MAX_MESSAGE_BYTES = 5 * 1024 * 1024
"""The limit of the topic of dead letters, the largest: a letter contains another message and its circumstances."""
PARTITION_BY_KEY = -1
LOG_ALERTS = 1  # of syslog; librdkafka writes to stderr past our log, and what matters comes by error_cb too


def log_error(error: KafkaError) -> None:
    """What librdkafka cannot do at the moment; it goes on trying."""
    log.warning("kafka", error=error.str())


class QueueFull(Retry):
    """The local queue is full: stop reading, and try again later."""


class Publisher:
    """Sends messages with ``acks=all``, in order per partition, without duplicates within a session."""

    def __init__(
        self,
        brokers: Brokers,
        service: str,
        delivery_seconds: float = DELIVERY_SECONDS,
        on_error: Callable[[KafkaError], None] = log_error,
    ) -> None:
        """Connects lazily. A thread serves delivery reports until :meth:`close`.

        Args:
            brokers: where to, and with which credentials.
            service: whose messages they are.
            delivery_seconds: after which a message is given up that no broker has acknowledged.
            on_error: called with what librdkafka cannot do at the moment: each attempt to connect, say.
        """
        self._service = service
        self._producer = Producer(
            client_properties(brokers)
            | {
                "client.id": service,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "batch.size": FETCHED_BYTES,  # consumers fetch whole batches
                "compression.type": "lz4",
                "message.timeout.ms": round(delivery_seconds * 1000),
                "partitioner": "murmur2_random",
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "log_level": LOG_ALERTS,
                "error_cb": on_error,
            }
        )
        self._closing = threading.Event()
        self._reports = threading.Thread(target=self._serve_reports, name=f"{service}-delivery", daemon=True)
        self._reports.start()

    def send_message(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int = PARTITION_BY_KEY,
    ) -> Future[int]:
        """Queue a message. The future holds its offset, or Retry if it could not be delivered.

        Raises QueueFull at once if the local queue is full, Retry if the message cannot be queued.
        """
        outcome: Future[int] = Future()
        try:
            self._producer.produce(
                topic,
                key=key,
                value=value,
                headers=list((headers or {}).items()),
                on_delivery=lambda error, message: _complete_future(outcome, error, message),
                partition=partition,
            )
        except BufferError as error:
            raise QueueFull(f"producer queue for {topic} is full") from error
        except KafkaException as error:
            raise Retry(f"cannot send to {topic}: {error.args[0].str()}") from error
        count_messages(self._service, topic, Direction.SENT)
        return outcome

    def flush(self, timeout_seconds: float) -> int:
        """Wait until all messages are delivered. Returns how many are not."""
        return int(self._producer.flush(timeout_seconds))

    def require_answer(self, topic: str, timeout_seconds: float) -> None:
        """Return when a broker answers where ``topic`` is. Blocks; raises Retry if none does in time."""
        with answered("brokers"):
            self._producer.list_topics(topic, timeout_seconds)

    def count_partitions(self, topic: str, timeout_seconds: float) -> int:
        """The number of partitions of ``topic``. Blocks; raises Retry if no broker answers in time."""
        with answered(f"partitions of {topic}"):
            found = self._producer.list_topics(topic, timeout_seconds).topics[topic]
        return partitions_in(found, topic)

    def drop_undelivered(self) -> None:
        """Give up every unacknowledged message. Some of them may have arrived."""
        self._producer.purge()

    def close(self, timeout_seconds: float = 10) -> None:
        """Deliver what is queued, then stop."""
        self.flush(timeout_seconds)
        self._closing.set()
        self._reports.join()

    def _serve_reports(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(POLL_SECONDS)


def _complete_future(outcome: Future[int], error: KafkaError | None, message: Message) -> None:
    if outcome.cancelled():
        return
    if error is not None:
        outcome.set_exception(Retry(f"message to {message.topic()} was not acknowledged: {error.str()}"))
    else:
        outcome.set_result(message.offset() or 0)
