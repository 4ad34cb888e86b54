"""How commands send messages: what is said to be sent has arrived."""

from __future__ import annotations

from collections.abc import Callable

from services.common.errors import Retry, Unavailable
from services.common.kafka import Publisher
from services.common.settings import KafkaSettings

CLIENT = "gitopsctl"


def publishing(settings: KafkaSettings, work: Callable[[Publisher], None]) -> None:
    """Do ``work`` with a publisher, and wait until all is delivered. Raises Unavailable."""
    publisher = Publisher(settings, CLIENT)
    try:
        work(publisher)
    except Retry as error:
        raise Unavailable(f"not everything was sent: {error}; run it again") from error
    finally:
        publisher.close()
