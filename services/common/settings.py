"""Settings that several services share. Each service's settings extend :class:`ServiceSettings`.

Only the service's ``bootstrap`` reads the environment, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, FilePath, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from services.common.addresses import AddressPolicy
from services.common.errors import InvalidConfiguration

SettingsT = TypeVar("SettingsT", bound=BaseSettings)


class BrokerSettings(BaseSettings):
    """The addresses of the brokers, and our credentials there."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    kafka_bootstrap_servers: str = Field(min_length=3, description="Kafka brokers, host:port, comma separated.")
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Protocol of the brokers' listener."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="SASL mechanism; used with the SASL protocols."
    )
    kafka_username: str = Field(default="", description="Our principal's name; needed with the SASL protocols.")
    kafka_password: SecretStr = Field(default=SecretStr(""), description="Its password.")
    kafka_ca: FilePath | None = Field(
        default=None, description="Authority that signed the brokers' certificates, a file; the system's if left out."
    )

    @model_validator(mode="after")
    def _has_credentials(self) -> Self:
        if self.kafka_security_protocol.startswith("SASL") and not (
            self.kafka_username and self.kafka_password.get_secret_value()
        ):
            raise ValueError("KAFKA_SECURITY_PROTOCOL asks for KAFKA_USERNAME and KAFKA_PASSWORD")
        return self

    @model_validator(mode="after")
    def _checks_certificates(self) -> Self:
        if self.kafka_ca is not None and not self.kafka_security_protocol.endswith("SSL"):
            raise ValueError(f"KAFKA_CA has no effect with KAFKA_SECURITY_PROTOCOL={self.kafka_security_protocol}")
        return self


class SchemaRegistrySettings(BaseSettings):
    """The address of the schema registry, and our credentials there."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    schema_registry_url: str = Field(
        pattern=r"^https?://",
        description="Base of a Confluent-compatible registry API, e.g. https://host/apis/ccompat/v7.",
    )
    schema_registry_ca: FilePath | None = Field(
        default=None,
        description="Authority that signed the registry's certificate, a file; well-known ones if left out.",
    )
    schema_registry_token: SecretStr = Field(
        default=SecretStr(""),
        description="Bearer token that the registry lets in; 'gitopsctl schemas token' makes one.",
    )

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        require_https(
            "SCHEMA_REGISTRY_URL",
            self.schema_registry_url,
            SCHEMA_REGISTRY_CA=self.schema_registry_ca,
            SCHEMA_REGISTRY_TOKEN=self.schema_registry_token.get_secret_value(),
        )
        return self


class KafkaSettings(SchemaRegistrySettings, BrokerSettings):
    """The brokers and the schema registry."""


class ServiceSettings(KafkaSettings):
    """Settings of every long-running service."""

    metrics_host: str = Field(default="127.0.0.1", description="Address that /metrics, /healthz and /readyz bind to.")
    metrics_port: int = Field(default=0, ge=0, le=65535, description="Port of the same; 0 picks a free one.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severe line written."
    )
    log_format: Literal["json", "console"] = Field(default="json", description="json for machines, console for people.")
    start_timeout_seconds: float = Field(
        default=30,
        gt=0,
        description="How long a dependency may stay silent at start before the process gives up.",
    )
    dead_letter_share: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Share of the tenants (agents: objects) heard of last whose newest message may be a dead letter; "
        "beyond, the consumer stands still and is not ready. 1: it never does.",
    )
    dead_letter_minimum: int = Field(
        default=5, ge=1, description="How many of them may be in any case, whatever share that is."
    )


def require_https(url_setting: str, url: str, **others: object) -> None:
    """Raises ValueError if ``url`` is not https, and one of ``others`` needs that.

    ``others`` has settings by name.
    """
    given = [name for name, value in others.items() if value]
    if given and not url.startswith("https://"):
        raise ValueError(f"{' and '.join(given)} asks for a {url_setting} that begins with https://")


def load(settings: type[SettingsT]) -> SettingsT:
    """Read ``settings`` from the environment.

    Raises:
        InvalidConfiguration: naming each variable, what is wrong with its value, without showing the value.
    """
    try:
        return settings()
    except ValidationError as error:
        problems = "; ".join(map(_problem, error.errors(include_input=False)))
        raise InvalidConfiguration(f"invalid settings: {problems}") from None


def _problem(item: ErrorDetails) -> str:
    return f"{_variable(item['loc'])}: {'is not set' if item['type'] == 'missing' else item['msg']}"


def _variable(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location).upper() or "settings"


def parse_engine_namespaces(value: str) -> dict[str, str]:
    """Parse ``ENGINE_NAMESPACES``: ``id=namespace`` pairs, comma separated; a bare namespace is its own id.

    Returns:
        Namespace by engine instance id, in the order written.

    Raises:
        ValueError: on an empty list, an empty name or a repeated id.
    """
    pairs = [item.strip() for item in value.split(",") if item.strip()]
    instances: dict[str, str] = {}
    for pair in pairs:
        instance, _, namespace = pair.partition("=")
        namespace = namespace or instance
        if not instance or instance in instances:
            raise ValueError(f"'{pair}' names no instance, or one already listed")
        instances[instance] = namespace
    if not instances:
        raise ValueError("no engine instance given; write e.g. 'gitops-service-argocd'")
    return instances


def _from_text(parse: Callable[[str], Any]) -> BeforeValidator:
    """For a setting that is text in the environment, and a value in tests."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def parse_names(value: str) -> frozenset[str]:
    """Parse names, comma separated; an empty text has none."""
    return frozenset(name.strip() for name in value.split(",") if name.strip())


EngineNamespaces = Annotated[dict[str, str], NoDecode, _from_text(parse_engine_namespaces)]
"""Written as ``id=namespace`` pairs."""
Names = Annotated[frozenset[str], NoDecode, _from_text(parse_names)]
"""Comma separated."""
AllowedAddresses = Annotated[AddressPolicy, NoDecode, _from_text(AddressPolicy.parse)]
"""Written as networks, comma separated."""
