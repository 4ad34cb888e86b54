"""Settings that several services share. Each service's own settings extend :class:`ServiceSettings`.

Read once, in the service's ``bootstrap``; nothing else looks at the environment.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from services.common.errors import InvalidConfiguration

SettingsT = TypeVar("SettingsT", bound=BaseSettings)


class KafkaSettings(BaseSettings):
    """Where the log and its schemas are."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    kafka_bootstrap_servers: str = Field(min_length=3, description="Kafka brokers, host:port, comma separated.")
    schema_registry_url: str = Field(
        pattern=r"^https?://",
        description="Base of a Confluent-compatible registry API, e.g. http://host/apis/ccompat/v7.",
    )


class ServiceSettings(KafkaSettings):
    """What every long-running service needs."""

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


def load(settings: type[SettingsT]) -> SettingsT:
    """Read ``settings`` from the environment.

    Raises:
        InvalidConfiguration: naming each variable, what is wrong with its value, without showing the value.
    """
    try:
        return settings()
    except ValidationError as error:
        problems = "; ".join(f"{_variable(item['loc'])}: {item['msg']}" for item in error.errors(include_input=False))
        raise InvalidConfiguration(f"invalid settings: {problems}") from None


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


EngineNamespaces = Annotated[dict[str, str], NoDecode]
