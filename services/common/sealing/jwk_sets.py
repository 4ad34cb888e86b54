"""Keys as JWK sets: how they are created, read, checked and written, and which engine cluster each belongs to.

A key may name an engine cluster (member ``engine_cluster``), whose agents alone have its private key. A key that names
no cluster serves the clusters without their own.

``gitopsctl keys`` creates and writes keys; :mod:`key_file` reads them for watchers and agents. An error shows nothing
of a key but its id.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from services.common.json_values import text_of
from services.common.kafka import ENGINE_CLUSTER_NAME

ALGORITHM, CURVE = "ECDH-ES+A256KW", "P-256"
CLUSTER_MEMBER = "engine_cluster"
"""Member of a JWK: the engine cluster whose agents alone have the private key; missing: all have it."""


def generate_key(engine_cluster: str = "") -> ECKey:
    """A new private key, named by its thumbprint (RFC 7638). The name begins with a letter or a digit.

    A name with a leading "-" would be an option on a command line. The member ``iat`` has the time of creation.
    """
    of_cluster = {CLUSTER_MEMBER: engine_cluster} if engine_cluster else {}
    while True:
        made: Any = {"iat": int(time.time())} | of_cluster
        key = ECKey.generate_key(CURVE, {"use": "enc", "alg": ALGORITHM} | made)
        key.ensure_kid()
        if str(key.kid)[0].isalnum():
            return key


def key_age_seconds(key: ECKey, now: float) -> float:
    """The age of a key at ``now`` (a POSIX timestamp), in seconds; infinite if the key has no time."""
    made = key.as_dict(private=False).get("iat")
    return now - made if isinstance(made, int | float) else float("inf")


def parse_keys(text: bytes, *, private: bool) -> dict[str, ECKey]:
    """Keys of a JWK set, by id. Raises ValueError saying what is wrong, without showing any of the text."""
    try:
        jwks = orjson.loads(text)
        keys = [ECKey.import_key(item) for item in jwks["keys"]]
    except (orjson.JSONDecodeError, JoseError, ValueError, KeyError, TypeError, AttributeError):
        keys = []
    if not keys:
        raise ValueError("not a JWK set of elliptic curve keys")
    for key in keys:
        key.ensure_kid()
        if key.curve_name != CURVE:
            raise ValueError(f"key {key.kid} is not of curve {CURVE}")
        if key.is_private is not private:
            raise ValueError(f"key {key.kid} is {'public' if private else 'private: only agents may hold those'}")
        cluster = key.as_dict(private=False).get(CLUSTER_MEMBER)
        if cluster is not None and not (isinstance(cluster, str) and re.fullmatch(ENGINE_CLUSTER_NAME, cluster)):
            raise ValueError(f"{CLUSTER_MEMBER} of key {key.kid} cannot be the id of an engine cluster")
    by_id = {str(key.kid): key for key in keys}
    if len(by_id) != len(keys):
        raise ValueError("two keys have the same id")
    return by_id


def jwk_set(keys: Mapping[str, ECKey], *, private: bool) -> bytes:
    """The text of a JWK set."""
    return orjson.dumps({"keys": [key.as_dict(private=private) for key in keys.values()]}, option=orjson.OPT_INDENT_2)


def write_keys(path: Path, keys: Mapping[str, ECKey], *, private: bool) -> None:
    """Write a JWK set so that readers see the old one or the new one; only the owner may read private keys."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(jwk_set(keys, private=private) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def cluster_of(key: ECKey) -> str:
    """The engine cluster whose agents alone have the private key; empty: all have it."""
    return text_of(key.as_dict(private=False).get(CLUSTER_MEMBER))


def cluster_of_file(keys: Mapping[str, ECKey]) -> str:
    """The engine cluster of these private keys; empty: any. Raises ValueError if there are two.

    Keys without a cluster may be in the same file, because something may still be sealed under them.
    """
    named = sorted({cluster for key in keys.values() if (cluster := cluster_of(key))})
    if len(named) > 1:
        raise ValueError(f"keys of several engine clusters: {', '.join(named)}; each has a file of its own")
    return named[0] if named else ""


def active_ids(keys: Mapping[str, ECKey]) -> dict[str, str]:
    """Ids of the public keys that seal, by engine cluster: the first key of each."""
    active: dict[str, str] = {}
    for kid, key in keys.items():
        active.setdefault(cluster_of(key), kid)
    return active
