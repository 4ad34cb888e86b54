"""When our token for the schema registry expires, as a metric. Nothing else shows it before the registry refuses us."""

from __future__ import annotations

import base64

import orjson

from services.common.json_values import dict_of
from services.common.settings import SchemaRegistrySettings
from services.common.telemetry import metrics


def report_token_expiry(service: str, settings: SchemaRegistrySettings) -> None:
    """Set the gauge of ``service``. There is none without a token, or if the token has no expiry."""
    expiry = expiry_of(settings.schema_registry_token.get_secret_value())
    if expiry is not None:
        metrics.REGISTRY_TOKEN_EXPIRATION.labels(service).set(expiry)


def expiry_of(token: str) -> float | None:
    """The expiry in a JSON Web Token, in seconds since the epoch. The registry verifies the token, we do not."""
    payload = token.partition(".")[2].partition(".")[0]
    try:
        claims = dict_of(orjson.loads(base64.urlsafe_b64decode(payload + "==")))
    except ValueError:
        return None
    expiry = claims.get("exp")
    return float(expiry) if isinstance(expiry, int | float) else None
