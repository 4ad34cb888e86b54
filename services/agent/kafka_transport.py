"""faust's Kafka driver with one setting it does not offer: how long an empty fetch may stay with the broker.

A broker answers the requests of one connection one after the other, and faust asks it for offsets several times during
a recovery. Behind an idle fetch of 1.5 seconds (fixed in the driver) each of them waits: a rebalance took 4.5 s, with
this 0.7 s. At low rate nothing changes: a fetch is answered as soon as there is a message.
"""

from __future__ import annotations

from typing import Any

from faust.transport.drivers import aiokafka as driver

FETCH_MAX_WAIT_MS = 200


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS  # read when the consumer starts
        return consumer


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)


class PromptTransport(driver.Transport):
    """The driver's transport with short fetches."""

    Consumer = _Consumer
