"""Kafka Connect's REST API: where it is, and the certificate by which it knows us."""

from __future__ import annotations

import ssl
from typing import Self

import httpx2
from pydantic import Field, FilePath, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.errors import InvalidConfiguration
from services.common.settings import require_https

REQUEST_SECONDS = 30.0


class ConnectSettings(BaseSettings):
    """Of the connector keeper and of ``gitopsctl connector``."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore")

    connect_url: str = Field(pattern=r"^https?://", description="Kafka Connect's REST API, e.g. https://host:8083.")
    connect_ca: FilePath | None = Field(
        default=None, description="Authority that signed Connect's certificate, a file; well-known ones if left out."
    )
    connect_certificate: FilePath | None = Field(
        default=None, description="Certificate that Connect lets in, a file; needed if it asks for one."
    )
    connect_key: FilePath | None = Field(default=None, description="Its private key, a file.")

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        if (self.connect_certificate is None) != (self.connect_key is None):
            raise ValueError("CONNECT_CERTIFICATE and CONNECT_KEY ask for each other")
        require_https(
            "CONNECT_URL",
            self.connect_url,
            CONNECT_CA=self.connect_ca,
            CONNECT_CERTIFICATE=self.connect_certificate,
        )
        return self


class ConnectorSettings(ConnectSettings):
    """Of ``gitopsctl connector apply``, which sets the connector up."""

    connect_poll_interval_ms: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="How often the connector looks for rows that are committed: the shorter, the sooner they are sent, "
        "and the more CPU it takes while there are none.",
    )


def connect_client(settings: ConnectSettings) -> httpx2.Client:
    """A client of the API. Raises InvalidConfiguration if a file does not hold what its setting says."""
    return httpx2.Client(base_url=settings.connect_url, timeout=REQUEST_SECONDS, verify=_tls(settings))


def _tls(settings: ConnectSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.connect_ca)
        if settings.connect_certificate is not None:
            context.load_cert_chain(settings.connect_certificate, settings.connect_key)
    except ssl.SSLError as error:
        raise InvalidConfiguration(f"CONNECT_CA, CONNECT_CERTIFICATE or CONNECT_KEY: {error.reason}") from error
    return context
