"""From a tenant's sealed Secret to its values, and from values to the Secret that Argo CD reads."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from services.agent.credentials.recipe import Sealed
from services.common.kubernetes import Manifest
from services.common.sealing import OpeningKeys, Unopenable


class SealedSecretUnreadable(Exception):
    """A sealed Secret does not open."""


def open_sealed_secret(keys: OpeningKeys, sealed: Sealed) -> dict[str, bytes]:
    """The Secret's values. Raises SealedSecretUnreadable: why, in words for its owner."""
    try:
        return keys.open(sealed.text, sealed.context)
    except Unopenable as error:
        why = str(error)
    raise SealedSecretUnreadable(f"the Secret could not be opened; {why}")


def secret(metadata: Manifest, data: Mapping[str, str]) -> Manifest:
    """A v1 Secret with ``data`` in clear."""
    if not metadata.get("annotations"):
        metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
