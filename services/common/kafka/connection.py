"""How we come to the brokers: the one place that knows what librdkafka calls it.

faust has its own words for the same, in :mod:`services.agent.stream.engine_stream`.
"""

from __future__ import annotations

from typing import Any

from services.common.settings import BrokerSettings

Brokers = BrokerSettings | str
"""Settings with our principal; or an address alone: a listener that asks for no credentials."""

Properties = dict[str, Any]


def kafka_at(brokers: Brokers) -> str:
    """What errors call the brokers."""
    return f"Kafka at {brokers if isinstance(brokers, str) else brokers.kafka_bootstrap_servers}"


def client_properties(brokers: Brokers) -> Properties:
    """What every librdkafka client is given, whatever else it needs. Holds the password: never to be logged."""
    if isinstance(brokers, str):
        return {"bootstrap.servers": brokers}
    properties: Properties = {
        "bootstrap.servers": brokers.kafka_bootstrap_servers,
        "security.protocol": brokers.kafka_security_protocol,
    }
    if brokers.kafka_security_protocol.startswith("SASL"):
        properties |= {
            "sasl.mechanism": brokers.kafka_sasl_mechanism,
            "sasl.username": brokers.kafka_username,
            "sasl.password": brokers.kafka_password.get_secret_value(),
        }
    if brokers.kafka_ca is not None:
        properties["ssl.ca.location"] = str(brokers.kafka_ca)
    return properties
