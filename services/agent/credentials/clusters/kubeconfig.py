"""Parses a tenant's kubeconfig: servers, tokens, certificates and their authorities. Everything else is refused.

A kubeconfig can name commands to run, local files to send, proxies to use and identities to impersonate. So only listed
fields are accepted, in the whole file and not only in the part that is used.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from services.agent.credentials.check_result import CheckFailed, failed, shown
from services.agent.credentials.clusters import strict_yaml
from services.agent.credentials.clusters.client_certificate import ClientCertificate
from services.agent.credentials.secret_recipe import (
    Sealed,
    SealedSecretUnreadable,
    SecretUseRefused,
    open_sealed_secret,
)
from services.common.sealing import OpeningKeys, SecretContext
from services.common.secret_use import SecretUse
from services.kinds.managed_environment import catalogue as environment

KEY = "kubeconfig"
MAX_AUTHORITY_BYTES = 64 * 1024

_TOP = frozenset(
    {"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context", "extensions"}
)
_CLUSTER = frozenset(
    {"server", "certificate-authority-data", "insecure-skip-tls-verify", "disable-compression", "extensions"}
)
_USER = frozenset({"token", "username", "password", "client-certificate-data", "client-key-data", "extensions"})
_CONTEXT = frozenset({"cluster", "user", "namespace", "extensions"})

_KNOWN_DANGERS = frozenset(
    {"exec", "auth-provider", "certificate-authority", "client-certificate", "client-key", "tokenFile", "proxy-url"}
    | {"tls-server-name", "as", "as-uid", "as-groups", "as-user-extra"}
)
"""Fields that errors may name. Any other name may be a typing error that contains a secret."""

_TOKEN = re.compile(r"[!-~]{1,16384}", re.ASCII)
"""Characters that cannot end an HTTP header."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach the cluster of an API URL."""

    token: str = field(repr=False)
    """The bearer token; empty if there is a certificate instead."""
    authority: str | None
    """PEM of the certificate authorities to trust instead of the system's."""
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A parsed kubeconfig: entries by name, in the order of the file."""

    clusters: dict[str, dict[str, Any]] = field(repr=False)
    contexts: dict[str, dict[str, Any]] = field(repr=False)
    users: dict[str, dict[str, Any]] = field(repr=False)
    current: str = field(repr=False)

    def access(self, api_url: str, *, by_certificate: bool = False) -> ClusterAccess:
        """The access to ``api_url``: a token, or a certificate if there is no token. Raises CheckFailed.

        Argo CD never gets a certificate. It only serves to create an account.
        """
        cluster, context = _locate(self.clusters, self.contexts, self.current, api_url)
        user = self.users.get(_text(self.contexts[context], "user"))
        if user is None:
            message = (
                "unable to extract remote cluster configuration from kubeconfig, missing auth info for "
                f"{shown(context)}"
            )
            raise CheckFailed(environment.UNPARSABLE_KUBECONFIG.reason, message)
        authority = _authority(self.clusters[cluster])
        certificate = _certificate(user) if by_certificate and not _text(user, "token") else None
        return ClusterAccess("" if certificate else _token(user, context), authority, certificate)


def read_kubeconfig(values: dict[str, bytes]) -> Kubeconfig:
    """The kubeconfig among a Secret's ``values``. Raises CheckFailed."""
    text = values.get(KEY)
    if text is None:
        raise failed(environment.MISSING_KUBECONFIG)
    config = _parsed(text)
    return Kubeconfig(
        clusters=_entries(config, "clusters", "cluster", _CLUSTER),
        contexts=_entries(config, "contexts", "context", _CONTEXT),
        users=_entries(config, "users", "user", _USER),
        current=_text(config, "current-context"),
    )


_JSON_TYPES = {str: "string", bool: "bool", list: "array"}
_NO_MAPPING = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct "
    '{{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }}'
)
"""The error as kubectl words it. Clients of the previous system look for it."""


def _parsed(text: bytes) -> dict[str, Any]:
    problem = ""
    try:
        config = strict_yaml.parse(text)
    except strict_yaml.Unreadable as error:
        problem = str(error)
    if problem:
        raise _unparsable(problem)
    if isinstance(config, str | bool | list):
        raise _unparsable(_NO_MAPPING.format(found=_JSON_TYPES[type(config)]))
    if not isinstance(config, dict):
        raise _unparsable("it is empty")
    _only(config, _TOP, "")
    if config.get("kind", "Config") != "Config" or config.get("apiVersion", "v1") != "v1":
        raise _unparsable("it is not of kind Config, apiVersion v1")
    return config


def _entries(config: dict[str, Any], section: str, member: str, accepted: frozenset[str]) -> dict[str, dict[str, Any]]:
    """Members of one of the named lists, by name, in the order of the file."""
    listed = config.get(section) or []
    if not isinstance(listed, list):
        raise _unparsable(f"{section} is not a list")
    entries: dict[str, dict[str, Any]] = {}
    for item in listed:
        name, content = _entry(item, section, member)
        if name in entries:
            raise _unparsable(f"{section} has two entries named '{shown(name)}'")
        _only(content, accepted, f"{section}['{shown(name)}'].{member}.")
        entries[name] = content
    return entries


def _entry(item: Any, section: str, member: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise _unparsable(f"an entry of {section} has no name")
    _only(item, frozenset({"name", member}), f"{section}['{shown(item['name'])}'].")
    content = item.get(member) or {}
    if not isinstance(content, dict):
        raise _unparsable(f"{section}['{shown(item['name'])}'].{member} is not a mapping")
    return item["name"], content


def _only(content: dict[str, Any], accepted: frozenset[str], path: str) -> None:
    for name in content:
        if name in _KNOWN_DANGERS:
            raise _unparsable(f"the field {path}{name} is not allowed")
        if name not in accepted:
            raise _unparsable(f"a field {path}* is unknown, or written in another case than kubectl writes it")


def _locate(
    clusters: dict[str, dict[str, Any]], contexts: dict[str, dict[str, Any]], current: str, api_url: str
) -> tuple[str, str]:
    """Names of the cluster at ``api_url`` and of a context that uses it, preferably the current context."""
    wanted = api_url.rstrip("/").lower()
    matching = [name for name, cluster in clusters.items() if _text(cluster, "server").rstrip("/").lower() == wanted]
    if not matching:
        raise failed(
            environment.NO_CONTEXT,
            f"the kubeconfig did not have a cluster entry that matched the API URL '{shown(api_url)}'",
        )
    using = [name for name, context in contexts.items() if _text(context, "cluster") in matching]
    if not using:
        message = (
            "the kubeconfig did not have a context that matched the cluster specified in the API URL of the "
            f"GitOpsDeploymentManagedEnvironment. Context was expected to reference cluster '{shown(matching[0])}'"
        )
        raise failed(environment.NO_CONTEXT, message)
    context = current if current in using else using[0]
    return _text(contexts[context], "cluster"), context


def _token(user: dict[str, Any], context: str) -> str:
    token = _text(user, "token")
    if not token:
        message = (
            f'kubeconfig must have a service account token for the user in context "{shown(context)}". '
            "client-certificate is not supported at this time."
        )
        raise CheckFailed(environment.UNPARSABLE_KUBECONFIG.reason, message)
    if not _TOKEN.fullmatch(token):
        raise _unparsable("the token is too long, or holds spaces, line breaks or other characters that no token has")
    return token


def _certificate(user: dict[str, Any]) -> ClientCertificate | None:
    chain, key = _text(user, "client-certificate-data"), _text(user, "client-key-data")
    if not chain and not key:
        return None
    if not chain or not key:
        raise _unparsable("client-certificate-data and client-key-data go together")
    return ClientCertificate(chain, key)


def _authority(cluster: dict[str, Any]) -> str | None:
    encoded = _text(cluster, "certificate-authority-data")
    if not encoded:
        return None
    pem = ""
    with contextlib.suppress(binascii.Error, ValueError):
        pem = base64.b64decode("".join(encoded.split()), validate=True).decode("ascii")
    if not 0 < len(pem) <= MAX_AUTHORITY_BYTES:
        raise failed(environment.NO_REST_CONFIG, "certificate-authority-data is not base64 of PEM certificates")
    return pem


def _text(content: dict[str, Any], name: str) -> str:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise _unparsable(f"the field {name} is not text")
    return value or ""


def _unparsable(why: str) -> CheckFailed:
    return failed(environment.UNPARSABLE_KUBECONFIG, why)


MAX_KEPT = 64
"""How many Secrets are cached. The least recently used is dropped first."""

_Key = tuple[bytes, SecretContext, SecretUse]


class KubeconfigCache:
    """Caches kubeconfigs, and failures of those that cannot be used, by their sealed texts."""

    def __init__(self, keys: OpeningKeys) -> None:
        self._keys = keys
        self._read: OrderedDict[_Key, Kubeconfig | CheckFailed] = OrderedDict()

    async def load_kubeconfig(self, sealed: Sealed) -> Kubeconfig:
        """The kubeconfig in ``sealed``. Raises CheckFailed."""
        texts = f"{sealed.text} {sealed.binding}".encode()
        key = (hashlib.blake2b(texts, digest_size=32).digest(), sealed.context, sealed.use)
        if key not in self._read:
            self._read[key] = await asyncio.to_thread(self._outcome, sealed)
        self._read.move_to_end(key)
        outcome = self._read[key]
        while len(self._read) > MAX_KEPT:
            self._read.popitem(last=False)
        if isinstance(outcome, CheckFailed):
            raise CheckFailed(outcome.reason, outcome.message)  # one that is raised twice would hold both traces
        return outcome

    def _outcome(self, sealed: Sealed) -> Kubeconfig | CheckFailed:
        """The kubeconfig, or why it cannot be used. Runs in a thread."""
        try:
            return read_kubeconfig(open_sealed_secret(self._keys, sealed))
        except SealedSecretUnreadable as error:
            return failed(environment.UNPARSABLE_KUBECONFIG, str(error))
        except SecretUseRefused as error:
            return failed(environment.USE_REFUSED, str(error))
        except CheckFailed as error:
            return CheckFailed(error.reason, error.message)
