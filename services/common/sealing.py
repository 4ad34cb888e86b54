"""Secrets sealed end to end: the watcher seals what it reads, only agents can open it, all between carries ciphertext.

JWE compact (RFC 7516), ECDH-ES+A256KW to a P-256 key, A256GCM. The protected header names the key (``kid``) and where
the Secret belongs (``ctx``); the latter is checked on opening, so that a sealed text moved to another tenant's row is
worthless. Keys are JWK sets in files that are read again when they change: keys rotate without a restart.

A key may name the engine cluster whose agents alone have the private one (member ``engine_cluster``). What is sealed
for a tenant opens with the keys of its clusters: one, or two while it is moved from one to the other. For two it is JWE
in its general form (JSON): one content, whose key is wrapped for each. A key that names no cluster serves those that
have none of their own.

What a Secret may be used for depends on the resource that names it. So each resource has a binding of its own: a second
sealed text, with a digest of the Secret's content and one of the use. Only who knows the content can make it, and that
is the watcher: a resource that is forged on the way has no binding that fits.

Nothing raised, logged or represented here ever holds content, sealed or not; errors are raised outside of ``except``
blocks, because the exceptions of JSON decoders carry the document they failed on.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson
import structlog
from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from joserfc.registry import HeaderParameter

from services.common.errors import InvalidConfiguration, Permanent
from services.common.json_values import canonical, dict_of, dicts_of, digest, text_of
from services.common.kafka import ENGINE_CLUSTER_NAME
from services.common.secret_use import SecretUse

log = structlog.get_logger(__name__)

ALGORITHM, ENCRYPTION, CURVE = "ECDH-ES+A256KW", "A256GCM", "P-256"
PUBLIC_KEYS, PRIVATE_KEYS = "SEALING_PUBLIC_KEYS", "SEALING_PRIVATE_KEYS"


class _Registry(jwe.JWERegistry):
    """joserfc's own limits are below what a Secret may hold; compression (``zip``) is not among what is allowed."""

    max_protected_header_length = 4096
    max_ciphertext_length = 4 * 1024 * 1024


def _check_context(value: Any) -> None:
    if not isinstance(value, dict):
        raise ValueError("must be an object")  # noqa: TRY004 - as joserfc's own checks do


REGISTRY = _Registry({"ctx": HeaderParameter("Where the Secret belongs", _check_context)}, [ALGORITHM, ENCRYPTION])


class Unopenable(Permanent):
    """A sealed text that will not open. Its message is the reason, never content."""


class NoKey(Permanent):
    """There is no key to seal with: nobody knows yet where the tenant is, or its engine cluster has none."""


class UseRefused(Unopenable):
    """A Secret that may not be used for this."""


class Unbound(UseRefused):
    """No watcher has said what it may be used for."""


@dataclass(frozen=True, slots=True)
class SecretContext:
    """Where a Secret belongs."""

    workspace: str
    namespace: str
    name: str
    type: str
    namespace_uid: str = ""
    """Which namespace of that name; empty: no watcher has told."""

    def as_header(self) -> dict[str, str]:
        """What is sealed with it."""
        return {name: value for name, value in asdict(self).items() if value or name != "namespace_uid"}

    def fits_header(self, header: object) -> bool:
        """Whether it was sealed for this; before watchers told of namespaces, for names alone."""
        told = dict(header) if isinstance(header, dict) else {}
        uid = told.pop("namespace_uid", "")
        names = replace(self, namespace_uid="").as_header()
        return told == names and uid in {self.namespace_uid, ""}


CLUSTER_MEMBER = "engine_cluster"
"""Member of a JWK: the engine cluster whose agents alone have the private key; missing: all have it."""
BINDING = "binding"
"""Purpose of a sealed text, in its context; the text of a Secret has none."""


class _KeyFile:
    """A JWK set in a file, read again when the file changes; a change that is unusable is told and passed over."""

    VARIABLE: ClassVar[str]
    IS_PRIVATE: ClassVar[bool]

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = self._stat()
        self._keys = self._read()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the JWK set. Raises InvalidConfiguration naming the variable."""
        return cls(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._keys)})"

    def current(self) -> dict[str, ECKey]:
        """Keys by id, in the order of the file."""
        version = self._stat()
        if version != self._version:
            self._version = version
            try:
                self._keys = self._read()
                log.info("sealing keys read again", keys=list(self._keys))
            except InvalidConfiguration as error:
                log.warning("sealing keys changed but are unusable; the former ones stay", error=str(error))
        return self._keys

    def _check(self, keys: Mapping[str, ECKey]) -> None:
        """Raises ValueError if they must not be used here."""

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None  # reading says why
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> dict[str, ECKey]:
        try:
            keys = parse_keys(self._path.read_bytes(), private=self.IS_PRIVATE)
            self._check(keys)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
        else:
            return keys
        raise InvalidConfiguration(f"{self.VARIABLE}: {self._path}: {reason}")


class SealingKeys(_KeyFile):
    """Public keys; of each engine cluster, and of those that name none, the first one seals.

    What seals takes the engine clusters of the tenant, and raises NoKey if none of the keys is of these. Where no key
    names a cluster, one seals for all tenants.
    """

    VARIABLE, IS_PRIVATE = PUBLIC_KEYS, False

    @property
    def active_ids(self) -> dict[str, str]:
        """Ids of the keys that seal now, by engine cluster; the one that names none under the empty name."""
        return active_ids(self.current())

    @property
    def names_clusters(self) -> bool:
        """Whether it matters in which engine cluster a tenant is."""
        return any(self.active_ids)

    def ids_for(self, clusters: Collection[str]) -> tuple[str, ...]:
        """Ids of the keys that seal for a tenant that is in these clusters; empty: there is none, or it is not known.

        A cluster without a key of its own has the one that names none.
        """
        return _ids_for(active_ids(self.current()), clusters)

    def active_age_seconds(self, now: float) -> float:
        """How long ago the oldest of the keys that seal was made; infinite if one does not say when."""
        keys = self.current()
        return max(key_age_seconds(keys[kid], now) for kid in active_ids(keys).values())

    def seal_secret(self, data: Mapping[str, str], context: SecretContext, clusters: Collection[str] = ()) -> str:
        """Seal a Secret's ``data``: base64 text by key, as Kubernetes has it."""
        return self._seal(orjson.dumps(dict(data)), context.as_header(), clusters)

    def seal_binding(
        self, data: Mapping[str, str], use: SecretUse, context: SecretContext, clusters: Collection[str] = ()
    ) -> str:
        """Seal what the Secret with this ``data`` may be used for."""
        content = {key: base64.b64decode(value) for key, value in data.items()}
        return self._seal(orjson.dumps(_bound(content, use)), _binding_context(context), clusters)

    def seal_binding_again(self, plaintext: bytes, context: SecretContext, clusters: Collection[str] = ()) -> str:
        """Seal what was opened by ``open_binding``."""
        return self._seal(plaintext, _binding_context(context), clusters)

    def _seal(self, plaintext: bytes, context: Mapping[str, str], clusters: Collection[str]) -> str:
        keys = self.current()
        ids = _ids_for(active_ids(keys), clusters)
        header = {"alg": ALGORITHM, "enc": ENCRYPTION, "ctx": dict(context)}
        match ids:
            case []:
                raise NoKey(f"no sealing key for {', '.join(sorted(clusters)) or 'a tenant that is not placed yet'}")
            case [kid]:
                return jwe.encrypt_compact(header | {"kid": kid}, plaintext, keys[kid], registry=REGISTRY)
        content = jwe.GeneralJSONEncryption(header, plaintext)
        for kid in ids:
            content.add_recipient({"kid": kid}, keys[kid])
        return orjson.dumps(jwe.encrypt_json(content, None, registry=REGISTRY)).decode()


class OpeningKeys(_KeyFile):
    """Private keys: every one that something may still be sealed under."""

    VARIABLE, IS_PRIVATE = PRIVATE_KEYS, True

    def __init__(self, path: Path, engine_cluster: str = "") -> None:
        """``engine_cluster``: whose agents have the file, which may hold no other cluster's keys; empty: any."""
        self._engine_cluster = engine_cluster
        super().__init__(path)

    @classmethod
    def load_of_cluster(cls, path: Path, engine_cluster: str) -> Self:
        """Read the file of an agent of this cluster. Raises InvalidConfiguration, also if it has another's keys."""
        return cls(path, engine_cluster)

    def _check(self, keys: Mapping[str, ECKey]) -> None:
        """A key of another cluster opens what is none of this one's business, so it must not lie here."""
        for kid, key in keys.items():
            if self._engine_cluster and (other := cluster_of(key)) not in {"", self._engine_cluster}:
                raise ValueError(
                    f"key {kid} is of engine cluster {other}, and these are agents of {self._engine_cluster}; take it "
                    "out of the file"
                )

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys."""
        return tuple(self.current())

    def open_secret(self, sealed: str, context: SecretContext) -> dict[str, bytes]:
        """The Secret's values, by key, whatever they may be used for.

        Raises Unopenable: key unknown, another context, damaged.
        """
        values = _values(self._open(sealed, context, purpose=""))
        if values is None:
            raise Unopenable("what was sealed is not the data of a Secret")
        return values

    def open_binding(self, binding: str, context: SecretContext) -> bytes:
        """What was sealed by ``seal_binding``. Raises Unopenable."""
        return self._open(binding, context, purpose=BINDING)

    def open_secret_for(self, use: SecretUse, sealed: str, binding: str, context: SecretContext) -> dict[str, bytes]:
        """The Secret's values, if it may be used for ``use``. Raises Unopenable, UseRefused if it may not."""
        values = self.open_secret(sealed, context)
        if not binding:
            raise Unbound("no watcher has said yet what it may be used for")
        told, wanted = _parsed(self.open_binding(binding, context)), _bound(values, use)
        if told.get("content") != wanted["content"]:
            raise UseRefused("what it may be used for was said of another content")
        if told.get("url") != wanted["url"]:
            raise UseRefused("it was given for another URL")
        if told != wanted:
            raise UseRefused("it was given for this URL on other terms, such as whether TLS is verified")
        return values

    def _open(self, sealed: str, context: SecretContext, purpose: str) -> bytes:
        ids, keys = key_ids_of(sealed), self.current()
        kid = next((each for each in ids if each in keys), None)
        if kid is None:
            raise Unopenable(f"sealed under a key that is not here: {', '.join(ids)!r}")
        opened = _decrypt(sealed, kid, keys[kid])
        if opened is None:
            raise Unopenable("the sealed text is damaged")
        header, plaintext = opened
        told = header.get("ctx")
        told = dict(told) if isinstance(told, dict) else {}
        if told.pop("purpose", "") != purpose or not context.fits_header(told):
            raise Unopenable("sealed for another Secret than the one it is used for")
        return plaintext


def key_ids_of(sealed: str) -> tuple[str, ...]:
    """Ids of the keys that ``sealed`` opens with, from its headers. Raises Unopenable."""
    headers = [each.get("header") for each in _recipients(sealed)] or [_header(sealed)]
    ids = tuple(text_of(dict_of(header).get("kid")) for header in headers)
    if not all(ids):
        raise Unopenable("not a sealed text")
    return ids


def key_id_of(sealed: str) -> str:
    """The same in one text: what tells whether another text is sealed under the same keys. Raises Unopenable."""
    return ",".join(key_ids_of(sealed))


def cluster_of(key: ECKey) -> str:
    """The engine cluster whose agents alone have the private key; empty: all have it."""
    return text_of(key.as_dict(private=False).get(CLUSTER_MEMBER))


def cluster_of_file(keys: Mapping[str, ECKey]) -> str:
    """The engine cluster whose agents have these private keys; empty: all have them. Raises ValueError if it is two.

    Keys that name none may lie beside those that do: something is still sealed under them.
    """
    named = sorted({cluster for key in keys.values() if (cluster := cluster_of(key))})
    if len(named) > 1:
        raise ValueError(f"keys of several engine clusters: {', '.join(named)}; each has a file of its own")
    return named[0] if named else ""


def active_ids(keys: Mapping[str, ECKey]) -> dict[str, str]:
    """Ids of those of these public keys that seal, by engine cluster: of each the first."""
    active: dict[str, str] = {}
    for kid, key in keys.items():
        active.setdefault(cluster_of(key), kid)
    return active


def _ids_for(active: Mapping[str, str], clusters: Collection[str]) -> tuple[str, ...]:
    if not any(active):
        return (active[""],)
    return tuple(sorted({kid for each in clusters if (kid := active.get(each, active.get("")))}))


def generate_key(engine_cluster: str = "") -> ECKey:
    """A new private key, named by its thumbprint (RFC 7638), which begins with a letter or a digit.

    One that begins with "-" would be taken for an option on a command line. Its member ``iat`` says when it was made.
    """
    of_cluster = {CLUSTER_MEMBER: engine_cluster} if engine_cluster else {}
    while True:
        made: Any = {"iat": int(time.time())} | of_cluster
        key = ECKey.generate_key(CURVE, {"use": "enc", "alg": ALGORITHM} | made)
        key.ensure_kid()
        if str(key.kid)[0].isalnum():
            return key


def key_age_seconds(key: ECKey, now: float) -> float:
    """How long before ``now`` (a POSIX timestamp) a key was made; infinite if it does not say when."""
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


def _decrypt(sealed: str, kid: str, key: ECKey) -> tuple[dict[str, Any], bytes] | None:
    """The protected header and the content; None if the text is damaged."""
    recipient = next((each for each in _recipients(sealed) if dict_of(each.get("header")).get("kid") == kid), None)
    try:
        if recipient is None:
            opened = jwe.decrypt_compact(sealed, key, registry=REGISTRY)
            return opened.headers(), opened.plaintext or b""
        shared = {name: orjson.loads(sealed)[name] for name in ("protected", "iv", "ciphertext", "tag")}
        flattened: Any = {**shared, **recipient}
        one = jwe.decrypt_json(flattened, key, registry=REGISTRY)
    except (JoseError, ValueError, KeyError, TypeError):
        return None
    return dict(one.protected), one.plaintext or b""


def _recipients(sealed: str) -> Sequence[dict[str, Any]]:
    """Of a text in the general form, unverified; none of one in the compact form, which has no braces."""
    if not sealed.startswith("{"):
        return ()
    try:
        return dicts_of(orjson.loads(sealed).get("recipients"))
    except orjson.JSONDecodeError:
        return ()


def _header(sealed: str) -> dict[str, Any]:
    """The protected header, unverified; empty if there is none."""
    first = sealed.partition(".")[0]
    try:
        header = orjson.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except (ValueError, binascii.Error):
        return {}
    return header if isinstance(header, dict) else {}


def _binding_context(context: SecretContext) -> dict[str, str]:
    return context.as_header() | {"purpose": BINDING}


def _bound(values: Mapping[str, bytes], use: SecretUse) -> dict[str, str]:
    """What a binding says: digests, so that all are of one size."""
    content = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"content": digest(canonical(content)), "url": digest(use.url), "terms": digest(use.terms)}


def _parsed(plaintext: bytes) -> dict[str, Any]:
    try:
        return dict_of(orjson.loads(plaintext))
    except orjson.JSONDecodeError:
        return {}


def _values(plaintext: bytes) -> dict[str, bytes] | None:
    try:
        data = orjson.loads(plaintext)
        return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
    except (ValueError, TypeError, AttributeError):
        return None
