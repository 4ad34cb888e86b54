"""Validation of a GitOpsDeploymentManagedEnvironment and of the Secret that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from services.common.addresses import AddressPolicy
from services.common.api_resource import SECRET
from services.common.errors import Permanent
from services.common.json_values import canonical
from services.common.secret_use import SecretUse
from services.common.text_cache import TEXTS
from services.common.urls.repository_url import ASCII_MESSAGE
from services.common.urls.web_address import Parts, port_problem, split_url
from services.kinds.managed_environment import catalogue as texts
from services.kinds.managed_environment.model import (
    API_URL_MESSAGE,
    ENVIRONMENT_SECRET,
    ManagedEnvironmentSpec,
)
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.kind import Reference
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import parsed, spec_of
from services.kinds.shared.text import MAX_NAME
from services.kinds.shared.url_rules import FRAGMENT_MESSAGE, USER_INFO_MESSAGE

_PRINTABLE = re.compile(r"[!-~]*")
_PATH = re.compile(r"[A-Za-z0-9._~+:,=/-]*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def cluster_use(
    api_url: str,
    namespaces: Iterable[str],
    *,
    skips_tls_verification: bool,
    creates_account: bool,
    cluster_resources: bool,
) -> SecretUse:
    """The use of a kubeconfig.

    Without verified TLS another server may be reached; the other terms decide the account's rights.
    """
    terms = {
        "skipsTLSVerification": skips_tls_verification,
        "createsAccount": creates_account,
        "namespaces": sorted(set(namespaces)),
        "clusterResources": cluster_resources,
    }
    return SecretUse(api_url, canonical(terms))


def secret_use(text: str) -> SecretUse | None:
    """What an environment with this spec (JSON text) uses its Secret for; None if it is invalid."""
    try:
        spec = parsed(ManagedEnvironmentSpec, text)
    except Permanent:
        return None
    return cluster_use(
        spec.api_url,
        spec.namespaces or (),
        skips_tls_verification=spec.allow_insecure_skip_tls_verify,
        creates_account=spec.create_new_service_account,
        cluster_resources=spec.cluster_resources,
    )


SECRET_REFERENCE = Reference(
    "credentialsSecret",
    SECRET,
    ENVIRONMENT_SECRET,
    {
        "over quota": ("Unknown", Reason.QUOTA_EXCEEDED, "{quota}"),
        "awaited": texts.AWAITING_SECRET.state,
        "other type": texts.INVALID_SECRET_TYPE.state,
        "omitted": texts.UNPARSABLE_KUBECONFIG.state,
        "unnamed": texts.SECRET_NOT_FOUND.state,
        "missing": texts.SECRET_NOT_FOUND.state,
    },
    secret_use,
)
"""The reference to the Secret with the kubeconfig."""


def accept(resource: PlainResource, addresses: AddressPolicy, limits: Limits) -> ManagedEnvironmentSpec:
    """The spec of ``resource``. Raises Refused."""
    if resource.over_quota:
        raise Refused("Unknown", Reason.QUOTA_EXCEEDED, limits.message(resource.kind))
    spec = spec_of(ManagedEnvironmentSpec, resource)
    for problem in _url_problems(spec.api_url, addresses):
        raise Refused(texts.UNSUPPORTED_API_URL.status, texts.UNSUPPORTED_API_URL.reason, problem)
    for namespace in spec.namespaces or ():
        if not is_namespace(namespace):
            entry = texts.INVALID_NAMESPACE_LIST
            raise Refused(entry.status, entry.reason, entry.text(namespace=namespace[:MAX_NAME]))
    return spec


@TEXTS.remember
def accepted_environment(text: str) -> ManagedEnvironmentSpec:
    """The accepted spec in ``text``, cached, because plans read the same spec often."""
    return ManagedEnvironmentSpec.model_validate_json(text)


def is_namespace(name: str) -> bool:
    """A DNS-1123 label."""
    return _LABEL.fullmatch(name) is not None


def _url_problems(url: str, addresses: AddressPolicy) -> Iterator[str]:
    if "?" in url or "&" in url:
        yield texts.UNSUPPORTED_API_URL.message
    if not _PRINTABLE.fullmatch(url):
        yield f"apiURL {ASCII_MESSAGE}"
    if "#" in url:
        yield FRAGMENT_MESSAGE
    parts = split_url(url)
    if parts is None or parts.scheme != "https":
        yield API_URL_MESSAGE
    else:
        yield from _parts_problems(parts, addresses)


def _parts_problems(parts: Parts, addresses: AddressPolicy) -> Iterator[str]:
    if parts.user is not None:
        yield f"apiURL {USER_INFO_MESSAGE}"
    if host := addresses.refusal_of_host(parts.host):
        yield f"apiURL names a host that cannot be used: {host}"
    if port := port_problem(parts.port):
        yield f"apiURL {port}"
    if not _PATH.fullmatch(parts.rest) or {".", ".."} & set(parts.rest.split("/")):
        yield "apiURL has a path that no API server has; correct it or leave it out"
