"""GitOpsDeploymentManagedEnvironment: which are accepted, what they show and whether deployments may use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from services.common.addresses import AddressPolicy
from services.common.api import ManagedEnvironmentSpec
from services.common.api.catalogue import environment as texts
from services.common.api.catalogue.entry import ERROR, THROTTLED, Reason
from services.common.api.limits import MAX_NAME
from services.common.api.managed_environment import API_URL_MESSAGE, FRAGMENT_MESSAGE
from services.common.api.names import ENVIRONMENT_SECRET
from services.common.api.urls import ASCII_MESSAGE, USER_INFO_MESSAGE
from services.common.urls.web_address import Parts, port_problem, split
from services.planner.kinds.bounds import MAX_REFUSAL
from services.planner.kinds.conditions import (
    Refused,
    State,
    compiled,
    parsed_status,
    recurring,
    throttling,
)
from services.planner.kinds.limits import Limits
from services.planner.kinds.names import SECRET
from services.planner.kinds.sealed_secret import SealedSecret, content_of
from services.planner.kinds.written_spec import spec_of
from services.planner.rows import Check, Resource

SUCCEEDED = texts.CONNECTED.reason

_STATUS = {entry.reason: entry.status for entry in texts.ENTRIES if entry.type == texts.CONNECTION}
_PRINTABLE = re.compile(r"[!-~]*")
_PATH = re.compile(r"[A-Za-z0-9._~+:,=/-]*")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class Usability(Enum):
    """Whether deployments may go to an environment."""

    PENDING = "pending"
    """Its first check has no result yet: they wait, and nothing is wrong."""
    USABLE = "usable"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True)
class EnvironmentView:
    """An environment as a deployment sees it."""

    id: str
    """Of the environment: names its cluster secret."""
    name: str
    usability: Usability
    namespaces: tuple[str, ...]
    """Those that deployments may go to; none: all of the cluster."""
    cluster_resources: bool


def accept(resource: Resource, policy: AddressPolicy, limits: Limits) -> ManagedEnvironmentSpec:
    """The spec of ``resource``. Raises Refused."""
    if resource.over_quota:
        raise Refused("Unknown", Reason.QUOTA_EXCEEDED, limits.message(resource.kind))
    spec = spec_of(ManagedEnvironmentSpec, resource)
    for problem in _url_problems(spec.api_url, policy):
        raise Refused(texts.UNSUPPORTED_API_URL.status, texts.UNSUPPORTED_API_URL.reason, problem)
    for namespace in spec.namespaces or ():
        if not is_namespace(namespace):
            raise Refused(texts.INVALID_NAMESPACE_LIST.status, texts.INVALID_NAMESPACE_LIST.reason, _invalid(namespace))
    return spec


def sealed(resource: Resource, secret: Resource | None, limits: Limits) -> SealedSecret:
    """The Secret with the kubeconfig; ``secret`` is the row of the name it has in ``resource``. Raises Refused."""
    content = content_of(resource, secret, ENVIRONMENT_SECRET)
    if isinstance(content, SealedSecret):
        return content
    match content.why:
        case "over quota":
            raise Refused("Unknown", Reason.QUOTA_EXCEEDED, limits.message(SECRET))
        case "awaited":
            entry = texts.AWAITING_SECRET
        case "other type":
            entry = texts.INVALID_SECRET_TYPE
        case "omitted":
            entry = texts.UNPARSABLE_KUBECONFIG
        case "unnamed" | "missing":
            entry = texts.SECRET_NOT_FOUND
    name, detail = resource.refers_to[:MAX_NAME], content.detail[:MAX_REFUSAL]
    raise Refused(entry.status, entry.reason, entry.text(secret=name, type=detail, detail=detail))


def environment_status(
    resource: Resource, refused: Refused | None, check: Check | None, digest: str | None, previous: str, at: datetime
) -> str:
    """Canonical JSON of the whole status; ``previous`` if nothing has changed.

    Args:
        resource: the CR.
        refused: what ``accept`` or ``sealed`` raised.
        check: newest result of an agent, for whatever manifest it was.
        digest: of the manifest compiled now; None if there is none.
        previous: the status compiled last for this incarnation, ``"{}"`` if none was.
        at: when that happened which may change it.
    """
    before = parsed_status(previous)
    beyond_quota = refused if refused is not None and refused.reason == Reason.QUOTA_EXCEEDED else None
    errors = {ERROR: (ERROR, beyond_quota.message)} if beyond_quota else {}
    others = recurring({**errors, **throttling(resource.held_back_ms)}, before, (ERROR, THROTTLED))
    return compiled(previous, {texts.CONNECTION: _connection(refused, check, digest)} | others, at)


def is_usable(
    refused: Refused | None, check: Check | None, digest: str | None, *, holds_this_cluster: bool = False
) -> Usability:
    """Whether deployments may go there; the first arguments are those of ``environment_status``.

    Once its credentials have worked, an engine holds them until better ones have: then a failing check says that new
    credentials are bad, or that the cluster is away for a moment. But what it holds must be of the cluster that the
    environment names now (``holds_this_cluster``), or deployments would go to the one it named before.
    """
    if refused is not None and not refused.pending:
        return Usability.UNUSABLE
    if holds_this_cluster or (check is not None and check.reason == SUCCEEDED and check.digest == digest):
        return Usability.USABLE
    is_current = refused is None and check is not None and check.digest == digest
    return Usability.UNUSABLE if is_current else Usability.PENDING


def is_namespace(name: str) -> bool:
    """A DNS-1123 label."""
    return _LABEL.fullmatch(name) is not None


def _connection(refused: Refused | None, check: Check | None, digest: str | None) -> State:
    if refused is not None:
        return (refused.status, refused.reason, refused.message)
    if check is None or check.digest != digest:
        return ("Unknown", Reason.CHECKING, texts.CHECKING.message)
    return (_STATUS.get(check.reason, "Unknown"), check.reason, check.message)


def _url_problems(url: str, policy: AddressPolicy) -> Iterator[str]:
    if "?" in url or "&" in url:
        yield texts.UNSUPPORTED_API_URL.message
    if not _PRINTABLE.fullmatch(url):
        yield f"apiURL {ASCII_MESSAGE}"
    if "#" in url:
        yield FRAGMENT_MESSAGE
    parts = split(url)
    if parts is None or parts.scheme != "https":
        yield API_URL_MESSAGE
    else:
        yield from _parts_problems(parts, policy)


def _parts_problems(parts: Parts, policy: AddressPolicy) -> Iterator[str]:
    if parts.user is not None:
        yield f"apiURL {USER_INFO_MESSAGE}"
    if host := policy.refusal_of_host(parts.host):
        yield f"apiURL names a host that cannot be used: {host}"
    if port := port_problem(parts.port):
        yield f"apiURL {port}"
    if not _PATH.fullmatch(parts.rest) or {".", ".."} & set(parts.rest.split("/")):
        yield "apiURL has a path that no API server has; correct it or leave it out"


def _invalid(namespace: str) -> str:
    detail = "ManagedEnvironment contains an invalid namespace in namespaces list"
    return f"user specified an invalid namespace: {detail}: {namespace[:MAX_NAME]}"
