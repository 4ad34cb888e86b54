"""Validation of a GitOpsDeploymentRepositoryCredential and of the Secret that it names."""

from __future__ import annotations

from functools import lru_cache

from services.common.addresses import AddressPolicy
from services.common.api_resource import SECRET
from services.common.urls.repository_url import refusal
from services.kinds.repository_credential import catalogue as texts
from services.kinds.repository_credential.model import CREDENTIAL_SECRET, RepositoryCredentialSpec
from services.kinds.secret.rules import SealedSecret, content_of
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.quota import Limits
from services.kinds.shared.rows import Resource
from services.kinds.shared.spec_text import spec_of
from services.kinds.shared.text import MAX_NAME

INVALID_CREDENTIALS = texts.INVALID[0].reason
INVALID_URL = texts.URL_NOT_FOUND[0].reason


def accept(resource: Resource, policy: AddressPolicy, limits: Limits) -> RepositoryCredentialSpec:
    """The spec of ``resource``. Raises Refused."""
    if resource.over_quota:
        raise Refused("False", Reason.QUOTA_EXCEEDED, limits.message(resource.kind))
    spec = spec_of(RepositoryCredentialSpec, resource)
    if problem := refusal(spec.repository, policy, with_credentials=True):
        raise Refused("False", INVALID_URL, f"spec.repository {problem}")
    return spec


def sealed(resource: Resource, secret: Resource | None, limits: Limits) -> SealedSecret:
    """The Secret with the login; ``secret`` is the row of the name it has in ``resource``. Raises Refused."""
    content = content_of(resource, secret, CREDENTIAL_SECRET)
    if isinstance(content, SealedSecret):
        return content
    match content.why:
        case "awaited":
            entry = texts.AWAITING_SECRET[0]
        case "over quota":
            raise Refused("False", Reason.QUOTA_EXCEEDED, limits.message(SECRET.kind))
        case "omitted":
            raise Refused("False", INVALID_CREDENTIALS, content.detail)
        case "unnamed":
            entry = texts.SECRET_NOT_SPECIFIED[0]
        case "missing":
            entry = texts.SECRET_NOT_FOUND[0]
        case "other type":
            entry = texts.SECRET_INVALID_TYPE[0]
    raise Refused("False", entry.reason, entry.text(secret=resource.refers_to[:MAX_NAME]))


@lru_cache(maxsize=4096)
def accepted_credential(text: str) -> RepositoryCredentialSpec:
    """The spec in ``text``, which was accepted before. A plan asks for the same one often."""
    return RepositoryCredentialSpec.model_validate_json(text)
