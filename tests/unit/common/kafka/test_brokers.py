"""How settings become what librdkafka is told."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from pydantic import SecretStr

from services.common.errors import InvalidConfiguration, NoPermission, Retry
from services.common.kafka import brokers, client_properties, described_partitions, kafka_at
from services.common.settings import BrokerSettings, load

SASL: dict[str, Any] = {
    "kafka_bootstrap_servers": "broker:9094",
    "kafka_security_protocol": "SASL_SSL",
    "kafka_username": "watcher",
    "kafka_password": SecretStr("hunter2"),
}


def test_properties_when_an_address_is_all_there_is_then_nothing_else_is_set() -> None:
    assert client_properties("broker:9092") == {"bootstrap.servers": "broker:9092"}


def test_brokers_when_named_in_an_error_then_by_their_addresses_alone() -> None:
    assert kafka_at(BrokerSettings(**SASL)) == "Kafka at broker:9094" == kafka_at("broker:9094")


def test_properties_when_without_sasl_then_no_credentials_are_set() -> None:
    settings = BrokerSettings(kafka_bootstrap_servers="broker:9092", kafka_username="somebody")
    assert client_properties(settings) == {"bootstrap.servers": "broker:9092", "security.protocol": "PLAINTEXT"}


def test_properties_when_with_sasl_and_an_authority_then_both_are_set(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.touch()
    assert client_properties(BrokerSettings(**SASL, kafka_ca=authority)) == {
        "bootstrap.servers": "broker:9094",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "watcher",
        "sasl.password": "hunter2",
        "ssl.ca.location": str(authority),
    }


def test_settings_when_shown_then_the_password_is_not() -> None:
    assert "hunter2" not in repr(BrokerSettings(**SASL))


def answering(answers: dict[str, KafkaError | int], refusal: KafkaError | None = None) -> Any:
    """A client of brokers that have topics of so many partitions, and an error for each of the others."""

    def describe_topics(asked: TopicCollection, request_timeout: float) -> dict[str, Future[Any]]:
        return {topic: told(answers[topic]) for topic in asked.topic_names}

    def told(answer: KafkaError | int) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(SimpleNamespace(partitions=[object()] * answer))
        return future

    def client(properties: dict[str, Any]) -> SimpleNamespace:
        def poll(_: float) -> None:
            if refusal is not None:
                properties["error_cb"](refusal)

        return SimpleNamespace(describe_topics=describe_topics, poll=poll)

    return client


@pytest.mark.parametrize(
    ("code", "partitions"),
    [(KafkaError.UNKNOWN_TOPIC_OR_PART, 0), (KafkaError.TOPIC_AUTHORIZATION_FAILED, None)],
    ids=["not there", "not ours to know"],
)
def test_topic_when_the_brokers_do_not_describe_it_then_one_that_is_not_there_is_told_from_one_that_we_may_not_know_of(
    monkeypatch: pytest.MonkeyPatch, code: int, partitions: int | None
) -> None:
    monkeypatch.setattr(brokers, "AdminClient", answering({"some": 3, "other": KafkaError(code)}))
    assert described_partitions("broker:9092", ["some", "other"]) == {"some": 3, "other": partitions}


def test_topic_when_the_brokers_cannot_tell_of_it_now_then_they_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "AdminClient", answering({"some": 3, "other": KafkaError(KafkaError._TIMED_OUT)}))
    with pytest.raises(Retry, match="Kafka does not answer, asked for other, some: "):
        described_partitions("broker:9092", ["some", "other"])


def test_topic_when_the_brokers_refuse_our_login_then_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = KafkaError(KafkaError._AUTHENTICATION)
    client = answering({"some": KafkaError(KafkaError._TIMED_OUT)}, refusal)
    monkeypatch.setattr(brokers, "AdminClient", client)
    with pytest.raises(NoPermission, match="Kafka refuses KAFKA_USERNAME and KAFKA_PASSWORD"):
        described_partitions("broker:9092", ["some"])


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_USERNAME": "watcher"}, "KAFKA_PASSWORD"),
        ({"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_PASSWORD": "hunter2"}, "KAFKA_USERNAME"),
        ({"KAFKA_SECURITY_PROTOCOL": "sasl"}, "KAFKA_SECURITY_PROTOCOL"),
        ({"KAFKA_SASL_MECHANISM": "GSSAPI"}, "KAFKA_SASL_MECHANISM"),
        ({"KAFKA_CA": "/no/such/file"}, "KAFKA_CA"),
        ({"KAFKA_CA": __file__}, "KAFKA_CA has no effect with KAFKA_SECURITY_PROTOCOL=PLAINTEXT"),
    ],
)
def test_settings_when_incomplete_or_wrong_then_the_variable_is_named_and_no_value_of_a_secret(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: str
) -> None:
    for name, value in ({"KAFKA_BOOTSTRAP_SERVERS": "broker:9094"} | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidConfiguration) as refusal:
        load(BrokerSettings)
    assert named in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
