"""Do the brokers let us in? Asked once at start: later librdkafka tries for ever, and only a log says so."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from services.common.errors import NoPermission, Retry
from services.common.kafka.connection import Brokers, client_properties

REQUEST_SECONDS = 2.0


def check_login(brokers: Brokers) -> None:
    """Return when a broker has let us in.

    Raises NoPermission when it refuses our credentials, Retry when none answers.
    """
    refusals: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            refusals.append(error)

    admin = AdminClient(client_properties(brokers) | {"log_level": 0, "error_cb": note})
    try:
        admin.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        admin.poll(0)  # calls back
        if refusals:
            raise NoPermission(
                f"Kafka refuses KAFKA_USERNAME and KAFKA_PASSWORD: {refusals[0].str()}; see 'gitopsctl topics acls'"
            ) from error
        raise Retry(str(error.args[0])) from error
