"""Secrets sealed end to end: the watcher seals what it reads, only agents can open it, all between carries ciphertext.

Watchers seal with :class:`SealingKeys`, agents open with :class:`OpeningKeys`; ``gitopsctl keys`` makes both. Keys are
JWK sets in files that are read again when they change: keys rotate without a restart. A sealed text says where the
Secret belongs, which is checked on opening, so that a text moved to another tenant's row is worthless.

What a Secret may be used for depends on the resource that names it. So each resource has a binding of its own: a second
sealed text, with a digest of the Secret's content and one of the use. Only who knows the content can make it, and that
is the watcher: a resource that is forged on the way has no binding that fits.

Nothing raised, logged or represented here ever holds content, sealed or not; errors are raised outside of ``except``
blocks, because the exceptions of JSON decoders carry the document they failed on.
"""

from services.common.sealing.jwk_sets import (
    active_ids,
    cluster_of,
    cluster_of_file,
    generate_key,
    jwk_set,
    key_age_seconds,
    parse_keys,
    write_keys,
)
from services.common.sealing.opening_keys import OpeningKeys, Unbound, UseRefused
from services.common.sealing.sealed_text import Unopenable, key_id_of, key_ids_of
from services.common.sealing.sealing_keys import NoKey, SealingKeys
from services.common.sealing.secret_context import SecretContext

__all__ = [
    "NoKey",
    "OpeningKeys",
    "SealingKeys",
    "SecretContext",
    "Unbound",
    "Unopenable",
    "UseRefused",
    "active_ids",
    "cluster_of",
    "cluster_of_file",
    "generate_key",
    "jwk_set",
    "key_age_seconds",
    "key_id_of",
    "key_ids_of",
    "parse_keys",
    "write_keys",
]
