"""The queue of messages that cannot be processed. A consumer that cannot write a dead letter must stop."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import datetime

import structlog

from services.common.avro import AvroCodec
from services.common.kafka.consumed_message import ConsumedMessage
from services.common.kafka.publisher import Publisher
from services.common.kafka.topics import DEAD_LETTERS
from services.common.messages import DeadLetter
from services.common.telemetry import TRACEPARENT, metrics

log = structlog.get_logger(__name__)

VALUE_LIMIT = 4 * 1024 * 1024
"""Only the beginning of a longer value is kept. The topics of this product have none."""
ERROR_LIMIT = 4096


class DeadLetterQueue:
    """Writes the dead letters of one service."""

    def __init__(self, publisher: Publisher, codec: AvroCodec[DeadLetter], service: str) -> None:
        """``codec`` encodes :class:`DeadLetter`."""
        self._publisher, self._codec, self._service = publisher, codec, service

    def send_letter(self, message: ConsumedMessage, error: Exception, failed_at: datetime) -> Future[int]:
        """Queue the dead letter of ``message``. Only when the future has a result may the message be skipped."""
        headers = {name: value for name, value in message.headers if name == TRACEPARENT and value}
        letter = DeadLetter(
            service=self._service,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            key=message.key,
            value=None if message.value is None else message.value[:VALUE_LIMIT],
            headers=headers,
            error=_reason(message, error),
            failed_at=failed_at,
        )
        metrics.DEAD_LETTERS.labels(self._service, message.topic).inc()
        log.error(
            "message given up",
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            error=str(error),
        )
        return self._publisher.send_message(DEAD_LETTERS, message.key, self._codec.encode_message(letter), headers)


def _reason(message: ConsumedMessage, error: Exception) -> str:
    size = len(message.value or b"")
    cut = f" (the first {VALUE_LIMIT} of {size} bytes are kept)" if size > VALUE_LIMIT else ""
    return str(error)[:ERROR_LIMIT] + cut
