"""When our token for the schema registry expires: a metric, as nothing else tells before the registry refuses it."""

from __future__ import annotations

import base64

import orjson

from services.common.json_values import dict_of
from services.common.settings import SchemaRegistrySettings
from services.common.telemetry import metrics


def report_token_expiry(service: str, settings: SchemaRegistrySettings) -> None:
    """Set the gauge of ``service``; there is none without a token, or if the token does not say."""
    expiry = expiry_of(settings.schema_registry_token.get_secret_value())
    if expiry is not None:
        metrics.REGISTRY_TOKEN_EXPIRATION.labels(service).set(expiry)


def expiry_of(token: str) -> float | None:
    """What a JSON Web Token says of its end, in seconds since the epoch. The registry verifies it, we do not."""
    payload = token.partition(".")[2].partition(".")[0]
    try:
        claims = dict_of(orjson.loads(base64.urlsafe_b64decode(payload + "==")))
    except ValueError:
        return None
    expiry = claims.get("exp")
    return float(expiry) if isinstance(expiry, int | float) else None
