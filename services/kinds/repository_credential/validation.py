"""Validation of a GitOpsDeploymentRepositoryCredential and its Secret, and the resulting repository."""

from __future__ import annotations

from services.common.addresses import AddressPolicy
from services.common.api_resource import SECRET
from services.common.errors import Permanent
from services.common.secret_use import SecretUse
from services.common.text_cache import TEXTS
from services.common.urls.repository_url import normalised, refusal
from services.kinds.repository_credential import catalogue as texts
from services.kinds.repository_credential.model import CREDENTIAL_SECRET, RepositoryCredentialSpec
from services.kinds.shared.catalogue import Reason
from services.kinds.shared.conditions import Refused
from services.kinds.shared.connections import ConnectionInputs, Repository
from services.kinds.shared.kind import Reference
from services.kinds.shared.limits import Limits
from services.kinds.shared.resource import PlainResource
from services.kinds.shared.spec_text import parsed, spec_of

INVALID_CREDENTIALS = texts.INVALID[0].reason
INVALID_URL = texts.URL_NOT_FOUND[0].reason


def repository_use(repository: str) -> SecretUse:
    """The use of a login to this repository."""
    return SecretUse(normalised(repository))


def secret_use(spec: str) -> SecretUse | None:
    """What a credential with this spec (JSON text) uses its Secret for; None if it is invalid."""
    try:
        return repository_use(parsed(RepositoryCredentialSpec, spec).repository)
    except Permanent:
        return None


SECRET_REFERENCE = Reference(
    "secret",
    SECRET,
    CREDENTIAL_SECRET,
    {
        "over quota": ("False", Reason.QUOTA_EXCEEDED, "{quota}"),
        "awaited": texts.AWAITING_SECRET[1].state,
        "other type": texts.SECRET_INVALID_TYPE[1].state,
        "omitted": ("False", INVALID_CREDENTIALS, "{detail}"),
        "unnamed": texts.SECRET_NOT_SPECIFIED[1].state,
        "missing": texts.SECRET_NOT_FOUND[1].state,
    },
    secret_use,
)
"""The reference to the Secret with the login."""


def accept(resource: PlainResource, addresses: AddressPolicy, limits: Limits) -> RepositoryCredentialSpec:
    """The spec of ``resource``. Raises Refused."""
    if resource.over_quota:
        raise Refused("False", Reason.QUOTA_EXCEEDED, limits.message(resource.kind))
    spec = spec_of(RepositoryCredentialSpec, resource)
    if problem := refusal(spec.repository, addresses, with_credentials=True):
        raise Refused("False", INVALID_URL, f"spec.repository {problem}")
    return spec


@TEXTS.remember
def accepted_credential(text: str) -> RepositoryCredentialSpec:
    """The accepted spec in ``text``, cached, because plans read the same spec often."""
    return RepositoryCredentialSpec.model_validate_json(text)


def connections(inputs: ConnectionInputs) -> tuple[Repository]:
    """The repository of a credential."""
    return (Repository(accepted_credential(inputs.spec).repository, inputs.secret),)
